"""What producers, workers and an operator say to a broker, call by call, with the project's wire models.

Not the SDK's client on purpose: a fleet must be able to leave a heartbeat out, and sixty workers share one session.
"""

from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from pydantic import BaseModel

from leadsman.wire.base import Reply, Request
from leadsman.wire.capabilities import CapabilitiesRequest
from leadsman.wire.leases import (
    AckRequest,
    HeartbeatReply,
    HeartbeatRequest,
    LeaseReply,
    LeaseRequest,
    ReleaseRequest,
    SettleReply,
)
from leadsman.wire.stats import StatsSnapshot
from leadsman.wire.tasks import SubmitReply, SubmitRequest, TaskSubmit
from leadsman.wire.workers import FenceReply, FenceRequest, UnfenceReply, UnfenceRequest

R = TypeVar("R", bound=BaseModel)

_BATCH = 500


class BrokerRefusedError(Exception):
    """The broker answered with a problem document, kept in `problem`."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.status = status
        self.problem = problem


class BrokerClient:
    """Calls to one broker. A context manager: it owns its connections, one for each parked lease call."""

    def __init__(self, url: str, *, connections: int = 256) -> None:
        self.url = url
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self.url,
            connector=aiohttp.TCPConnector(limit=self._connections),
            timeout=aiohttp.ClientTimeout(total=90),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def submit(self, namespace: str, *tasks: TaskSubmit) -> SubmitReply:
        """Enqueue tasks, in as many calls as their number takes."""
        results = []
        for start in range(0, len(tasks), _BATCH):
            request = SubmitRequest(tasks=list(tasks[start : start + _BATCH]))
            reply = await self._post(f"/v1/namespaces/{namespace}/tasks", request, SubmitReply)
            results += reply.results
        return SubmitReply(results=results)

    async def lease(self, namespace: str, request: LeaseRequest) -> LeaseReply:
        """Ask for tasks; parked by the broker while there are none."""
        return await self._post(f"/v1/namespaces/{namespace}/leases", request, LeaseReply)

    async def heartbeat(self, namespace: str, request: HeartbeatRequest) -> HeartbeatReply:
        """Renew a worker's leases and hear what the broker wants of it."""
        return await self._post(f"/v1/namespaces/{namespace}/leases/heartbeat", request, HeartbeatReply)

    async def ack(self, namespace: str, request: AckRequest) -> SettleReply:
        """Tasks are done."""
        return await self._post(f"/v1/namespaces/{namespace}/leases/ack", request, SettleReply)

    async def release(self, namespace: str, request: ReleaseRequest) -> SettleReply:
        """Give tasks back."""
        return await self._post(f"/v1/namespaces/{namespace}/leases/release", request, SettleReply)

    async def fence(self, request: FenceRequest) -> FenceReply:
        """Fence workers, as an operator does."""
        return await self._post("/v1/workers/fence", request, FenceReply)

    async def unfence(self, request: UnfenceRequest) -> UnfenceReply:
        """Lift fences."""
        return await self._post("/v1/workers/unfence", request, UnfenceReply)

    async def configure(self, namespace: str, request: CapabilitiesRequest) -> None:
        """Push the queues of a namespace, as an operator does."""
        await self._call("PUT", f"/v1/namespaces/{namespace}/capabilities", request)

    async def stats(self) -> StatsSnapshot:
        """Everything the broker counts, at one moment."""
        return StatsSnapshot.model_validate(await self._call("GET", "/v1/stats", None))

    async def post_raw(self, path: str, body: bytes, content_type: str = "application/json") -> tuple[int, Any]:
        """Send bytes as they are; the status and the decoded reply, whatever they are."""
        assert self._session is not None
        async with self._session.post(path, data=body, headers={"Content-Type": content_type}) as reply:
            return reply.status, await reply.json(content_type=None)

    async def _post(self, path: str, request: Request, kind: type[R]) -> R:
        return kind.model_validate(await self._call("POST", path, request))

    async def _call(self, method: str, path: str, request: Request | Reply | None) -> Any:
        assert self._session is not None, "use the client as an async context manager"
        data = None
        if request is not None:
            # An absent checkpoint and a null one are two things.
            data = request.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._session.request(
            method, path, data=data, headers={"Content-Type": "application/json"}
        ) as reply:
            # 429 carries the per-task refusals of a saturated queue, not a problem document.
            if reply.status >= 400 and reply.content_type != "application/json":
                raise BrokerRefusedError(reply.status, await reply.json(content_type=None))
            if reply.status == 204:
                return None
            return await reply.json()
