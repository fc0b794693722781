"""Something in the broker's place: it answers as a broker would, and then as it is told to."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from leadsman.wire.stats import CapabilityStats, StatsSnapshot

WORK = {"ready": 6, "waiting": 6, "leasable": 6}
NEVER_TRUE = ("negative", "not a number", "garbage", "silent", "drips", "old snapshot")
NO_WORK = {"ready": 0, "waiting": 0, "leasable": 0}


class Impostor:
    """Speaks the broker's two calls, first rightly and then as it is told to."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.port = 0
        self.mode = "right"
        self.opened = 0
        self._changed = asyncio.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

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
        if self.mode == "mute":
            await asyncio.sleep(3600)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        if self.mode == "beheaded":
            await self.send(reply, "delta", self.message(2, **NO_WORK))
            return reply
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
            "old snapshot": self.message(0, **NO_WORK),
        }
        if self.mode in lies:
            await self.send(reply, kind, lies[self.mode])
        elif self.mode == "garbage":
            await reply.write(f"event: {kind}\ndata: {{not json\n\n".encode())
        elif self.mode == "silent":
            await asyncio.sleep(3600)
        elif self.mode == "drips":
            while True:
                await reply.write(b": still here\n\n")
                await asyncio.sleep(0.2)

    @staticmethod
    async def send(reply: web.StreamResponse, kind: str, message: dict[str, Any]) -> None:
        await reply.write(f"event: {kind}\ndata: {json.dumps(message)}\n\n".encode())


NEVER_THE_BROKERS = ("html", "empty", "refuses", "mute", "beheaded", *NEVER_TRUE)
"""Answers that no broker gives."""


@contextlib.asynccontextmanager
async def impostor_for(namespace: str) -> AsyncIterator[Impostor]:
    """An impostor on a free port, which says that six tasks wait in `browser` of this namespace."""
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
