"""The broker's calls as plain JSON over HTTP, so that these tests also pin what travels."""

import io
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from leadsman.wire import base as wire

Json = dict[str, Any]

Model = TypeVar("Model", bound=wire.Reply)

_ATTEMPTS = itertools.count(1)


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem document."""
        found: str = self.json["code"]
        return found


def strictly(model: type[Model], data: Json) -> Model:
    """Validate a reply so that a field the wire model does not know, or gives another form, fails too."""
    parsed = model.model_validate(data)
    assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == data
    return parsed


@dataclass(frozen=True)
class StreamEvent:
    """One server-sent event."""

    id: str
    kind: str
    data: Json


class BrokerClient:
    """One worker or producer's connection pool to a broker."""

    def __init__(self, url: str, *, namespace: str = "default", token: str | None = None) -> None:
        self.url = url
        self.namespace = namespace
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

    async def reconnect(self) -> None:
        """Forget connections to a broker that has gone."""
        await self.session.close()
        await self.__aenter__()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=90)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session."""
        assert self._session is not None, "use `async with`"
        return self._session

    async def call(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, headers: Json | None = None
    ) -> Reply:
        """Make one call; `path` begins with /v1, or is relative to the namespace."""
        where = path if path.startswith("/v1") else f"/v1/namespaces/{self.namespace}/{path}"
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        data = None if content is None else io.BytesIO(content)
        async with self.session.request(
            method, self.url + where, data=data, headers={**self._headers, **(headers or {})}
        ) as response:
            return Reply(response.status, dict(response.headers), await response.read())

    async def ok(self, method: str, path: str, body: Any = None) -> Json:
        """Make one call that must succeed."""
        reply = await self.call(method, path, body)
        assert reply.status == 200, (reply.status, reply.body)
        found: Json = reply.json
        return found

    async def configure(self, *capabilities: Json, generation: int = 1) -> Json:
        """Set the namespace's capabilities."""
        return await self.ok("PUT", "capabilities", {"generation": generation, "capabilities": list(capabilities)})

    async def submit(self, *tasks: Json) -> list[Json]:
        """Enqueue tasks; returns the results."""
        found: list[Json] = (await self.ok("POST", "tasks", {"tasks": list(tasks)}))["results"]
        return found

    async def lease(
        self,
        pod: str = "pod-1",
        *,
        capabilities: Sequence[str] = ("work",),
        slots: int = 1,
        free: int | None = None,
        wait: float = 0.0,
        attempt: str | None = None,
        held: Sequence[str] = (),
        incarnation: str = "1",
    ) -> Json:
        """Ask for tasks."""
        return await self.ok(
            "POST",
            "leases",
            {
                "worker": {"pod_uid": pod, "incarnation": incarnation},
                "capabilities": list(capabilities),
                "slots": slots,
                "free_slots": slots if free is None else free,
                "attempt_id": attempt if attempt is not None else f"attempt-{next(_ATTEMPTS)}",
                "held": list(held),
                "wait_seconds": wait,
            },
        )

    async def heartbeat(
        self,
        pod: str = "pod-1",
        *,
        leases: Sequence[Json] = (),
        capabilities: Sequence[str] = ("work",),
        slots: int = 1,
        draining: bool = False,
        incarnation: str = "1",
    ) -> Json:
        """Renew leases."""
        return await self.ok(
            "POST",
            "leases/heartbeat",
            {
                "worker": {"pod_uid": pod, "incarnation": incarnation},
                "capabilities": list(capabilities),
                "slots": slots,
                "draining": draining,
                "leases": list(leases),
            },
        )

    async def ack(self, *tokens: str, result: Any = None) -> list[Json]:
        """Complete tasks."""
        body = {"acks": [{"token": token, "result": result} for token in tokens]}
        found: list[Json] = (await self.ok("POST", "leases/ack", body))["results"]
        return found

    async def nack(self, token: str, **more: Any) -> Json:
        """Fail an attempt."""
        item = {"token": token, "error": {"type": "Boom", "message": "it broke"}, **more}
        found: Json = (await self.ok("POST", "leases/nack", {"nacks": [item]}))["results"][0]
        return found

    async def release(self, token: str, **more: Any) -> Json:
        """Give a task back."""
        body = {"releases": [{"token": token, **more}]}
        found: Json = (await self.ok("POST", "leases/release", body))["results"][0]
        return found

    async def task(self, task_id: str, *, wait: float = 0.0) -> Json:
        """Read a task."""
        return await self.ok("GET", f"tasks/{task_id}" + (f"?wait={wait}" if wait else ""))

    async def stats(self) -> Json:
        """Read all stats."""
        return await self.ok("GET", "/v1/stats")

    async def queue(self, name: str = "work") -> Json:
        """Read one queue's stats."""
        (found,) = [
            queue
            for queue in (await self.stats())["capabilities"]
            if (queue["namespace"], queue["name"]) == (self.namespace, name)
        ]
        return dict(found)

    @asynccontextmanager
    async def stream(self, last_event_id: str | None = None) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Follow the stats."""
        headers = dict(self._headers)
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        async with self.session.get(self.url + "/v1/stats/stream", headers=headers) as response:
            assert response.status == 200, await response.text()
            yield _events(response)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[StreamEvent]:
    fields: dict[str, str] = {}
    buffered = b""
    async for chunk in response.content.iter_any():
        buffered += chunk
        *lines, buffered = buffered.split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.decode().partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield StreamEvent(fields["id"], fields["event"], json.loads(fields["data"]))
                fields = {}
            else:
                fields = {}
