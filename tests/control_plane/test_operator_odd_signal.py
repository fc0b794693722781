"""Something other than the broker answers, or the broker says what cannot be: nothing is taken away."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from fleet import Kube, OperatorProcess, ReplicaHistory, recorded, until
from fleet.manifests import capability, pool
from fleet.pools import Pools
from leadsman.wire.stats import CapabilityStats, StatsSnapshot

Start = Callable[..., OperatorProcess]

WORK = {"ready": 6, "waiting": 6, "leasable": 6}
NEVER_TRUE = ("negative", "not a number", "garbage", "silent")
NO_WORK = {"ready": 0, "waiting": 0, "leasable": 0}


class Impostor:
    """Speaks the broker's two calls, first rightly and then as it is told to."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.port = 0
        self.mode = "right"
        self.opened = 0
        self._changed = asyncio.Event()

    def turn(self, mode: str) -> None:
        self.mode = mode
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def message(self, sequence: int, **numbers: Any) -> dict[str, Any]:
        zero = {"delayed": 0, "leased": 0, "dead": 0, "due_soon": 0}
        queue = CapabilityStats(namespace=self.namespace, name="browser", **{**zero, **WORK, **numbers})
        return StatsSnapshot(epoch="e1", sequence=sequence, capabilities=[queue]).model_dump(mode="json")

    async def capabilities(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return web.json_response({"generation": body["generation"], "applied": True, "retained": []})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        self.opened += 1
        if self.mode == "html":
            return web.Response(text="<html>502 Bad Gateway</html>", content_type="text/html")
        if self.mode == "empty":
            return web.Response(text="", content_type="text/event-stream")
        if self.mode == "refuses":
            return web.Response(status=503, text="try later")
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        if self.mode in NEVER_TRUE:
            await self.lie(reply, "snapshot")
            return reply
        await self.send(reply, "snapshot", self.message(1))
        with contextlib.suppress(ConnectionError):
            while self.mode == "right":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await self._changed.wait()
                await self.send(reply, "tick", {"epoch": "e1", "sequence": 1})
            await self.lie(reply, "delta")
        return reply

    async def lie(self, reply: web.StreamResponse, kind: str) -> None:
        lies: dict[str, Any] = {
            "negative": self.message(2, **{**NO_WORK, "waiting": -1}),
            "not a number": json.loads(
                json.dumps(self.message(2, **NO_WORK)).replace('"leased": 0', '"leased": NaN')
            ),
            "another life": {**self.message(2, **NO_WORK), "epoch": "e2"},
            "yesterday": self.message(0, **NO_WORK),
        }
        if self.mode in lies:
            await self.send(reply, kind, lies[self.mode])
        elif self.mode == "garbage":
            await reply.write(f"event: {kind}\ndata: {{not json\n\n".encode())
        elif self.mode == "silent":
            await asyncio.sleep(3600)

    @staticmethod
    async def send(reply: web.StreamResponse, kind: str, message: dict[str, Any]) -> None:
        await reply.write(f"event: {kind}\ndata: {json.dumps(message)}\n\n".encode())


@pytest.fixture
async def impostor(namespace: str) -> AsyncIterator[Impostor]:
    found = Impostor(namespace)
    application = web.Application()
    application.add_routes(
        [
            web.get("/v1/stats/stream", found.stream),
            web.put("/v1/namespaces/{namespace}/capabilities", found.capabilities),
        ]
    )
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        found.port = listener.getsockname()[1]
        await web.SockSite(runner, listener).start()
        yield found
        await runner.cleanup()


@pytest.fixture
async def six(
    kube: Kube, namespace: str, pools: Pools, start_operator: Start, impostor: Impostor
) -> AsyncIterator[ReplicaHistory]:
    """A pool at the six replicas that the impostor's true numbers ask for, eager to shrink."""
    url = f"http://127.0.0.1:{impostor.port}"
    await asyncio.to_thread(start_operator, broker_url=url, namespaces=[namespace])
    async with recorded(kube, namespace) as history:
        eager = {"scaleIn": {"idleSeconds": 1}, "targetTasksPerSlot": 1}
        await pools.apply(capability("browser"), pool("browser", scaling=eager))
        await history.until("six", lambda sizes: sizes.replicas("browser")[-1:] == [6])
        yield history


@pytest.mark.parametrize("answer", ["html", "empty", "refuses", *NEVER_TRUE])
async def test_what_is_not_the_brokers_word_holds_the_fleet_until_the_truth_is_back(
    pools: Pools, impostor: Impostor, six: ReplicaHistory, answer: str
) -> None:
    impostor.turn(answer)

    await pools.until_condition("browser", "SignalHealthy", "False", reason="SignalLost", seconds=60)
    assert await until("its event", lambda: pools.events("browser", "SignalLost"))
    assert six.replicas("browser")[-1] == 6

    impostor.turn("right")
    await pools.until_condition("browser", "SignalHealthy", "True", seconds=30)


@pytest.mark.parametrize("answer", ["another life", "yesterday"])
async def test_a_change_that_does_not_continue_the_stream_is_dropped_and_the_truth_is_asked_for(
    pools: Pools, impostor: Impostor, six: ReplicaHistory, answer: str
) -> None:
    """The change says that there is no work; the snapshot before it, at every opening, says that there is."""
    opened = impostor.opened
    impostor.turn(answer)

    async def several() -> bool:
        return impostor.opened >= opened + 5

    await until("the stream to be opened again and again", several)
    assert six.replicas("browser")[-1] == 6
    await pools.until_condition("browser", "SignalHealthy", "True")
