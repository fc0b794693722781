"""Calls to the broker: fence, cordon, lift both, and the rules of a namespace's queues."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError

from leadsman.wire.capabilities import CapabilitiesReply, CapabilitiesRequest, CapabilityConfig
from leadsman.wire.problems import Problem
from leadsman.wire.workers import (
    CordonReply,
    CordonRequest,
    FenceReply,
    FenceRequest,
    UncordonReply,
    UncordonRequest,
    UnfenceReply,
    UnfenceRequest,
)
from leadsman_operator.broker.errors import BrokerError, BrokerUnreachableError
from leadsman_operator.broker.token import TokenFile

R = TypeVar("R", bound=BaseModel)

_TIMEOUT = aiohttp.ClientTimeout(total=10.0, connect=5.0)


class BrokerClient:
    """A context manager: it owns its connections. Every call raises BrokerError or BrokerUnreachableError."""

    def __init__(self, url: str, token: TokenFile) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(headers={"User-Agent": "leadsman-operator"}, trust_env=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections, for the stream as well."""
        if self._session is None:
            raise RuntimeError("use the client as an async context manager")
        return self._session

    async def fence(self, operation: str, pod_uids: Sequence[str], ttl_seconds: float) -> FenceReply:
        """Fence the workers in these pods; each succeeds only while it holds no lease."""
        request = FenceRequest(operation=operation, pod_uids=list(pod_uids), ttl_seconds=ttl_seconds)
        return await self._call("POST", "/v1/workers/fence", request, FenceReply)

    async def unfence(self, pod_uids: Sequence[str], operation: str | None = None) -> UnfenceReply:
        """Lift fences; without an operation, whoever set them."""
        request = UnfenceRequest(operation=operation, pod_uids=list(pod_uids))
        return await self._call("POST", "/v1/workers/unfence", request, UnfenceReply)

    async def cordon(self, operation: str, pod_uids: Sequence[str], ttl_seconds: float) -> CordonReply:
        """Give the workers in these pods nothing new; they keep what they hold. Renewing is the same call."""
        request = CordonRequest(operation=operation, pod_uids=list(pod_uids), ttl_seconds=ttl_seconds)
        return await self._call("POST", "/v1/workers/cordon", request, CordonReply)

    async def uncordon(self, pod_uids: Sequence[str], operation: str | None = None) -> UncordonReply:
        """Lift cordons; without an operation, whoever set them."""
        request = UncordonRequest(operation=operation, pod_uids=list(pod_uids))
        return await self._call("POST", "/v1/workers/uncordon", request, UncordonReply)

    async def put_capabilities(
        self, namespace: str, generation: int, capabilities: Sequence[CapabilityConfig]
    ) -> CapabilitiesReply:
        """Replace the rules of a namespace's queues; an older generation than the one known changes nothing."""
        request = CapabilitiesRequest(generation=generation, capabilities=list(capabilities))
        return await self._call("PUT", f"/v1/namespaces/{namespace}/capabilities", request, CapabilitiesReply)

    async def _call(self, method: str, path: str, body: BaseModel, reply: type[R]) -> R:
        try:
            status, raw = await self._send(method, path, body)
            if status == 401:
                self.token.renew()
                status, raw = await self._send(method, path, body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise BrokerUnreachableError(f"{method} {path}: {error or type(error).__name__}") from error
        if status >= 400:
            raise refusal(status, raw)
        try:
            return reply.model_validate_json(raw)
        except ValidationError as error:
            raise BrokerUnreachableError(f"{method} {path}: the answer is not the broker's: {error}") from error

    async def _send(self, method: str, path: str, body: BaseModel) -> tuple[int, bytes]:
        async with self.session.request(
            method,
            self.url + path,
            data=body.model_dump_json(by_alias=True, exclude_none=True),
            headers={"Content-Type": "application/json", **self.token.headers()},
            timeout=_TIMEOUT,
        ) as reply:
            return reply.status, await reply.read()


def refusal(status: int, raw: bytes) -> BrokerError:
    """Read a problem document; anything else (a proxy's page) is shown as it is, cut short."""
    try:
        problem = Problem.model_validate_json(raw)
    except ValidationError:
        return BrokerError(status, "unknown", raw[:200].decode(errors="replace"))
    return BrokerError(status, problem.code, problem.detail or problem.title)
