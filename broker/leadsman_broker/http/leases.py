"""Leasing tasks, keeping the leases, settling them."""

import asyncio
from collections.abc import Sequence
from typing import cast

from pydantic_core import to_json

from leadsman.wire.leases import (
    AckItem,
    AckRequest,
    CarriesCheckpoint,
    CarriesUsage,
    HeartbeatReply,
    HeartbeatRequest,
    LeaseReply,
    LeaseRequest,
    NackRequest,
    OnceReply,
    OnceRequest,
    ReleaseRequest,
    SettleReply,
    WorkerIdentity,
)
from leadsman.wire.problems import ProblemCode
from leadsman_broker.auth import Role
from leadsman_broker.core.commands import Ack, Beat, Heartbeat, Lease, Nack, Once, Release, Worker
from leadsman_broker.core.results import HeartbeatOutcome, Onced, Settled
from leadsman_broker.core.usage import Usage
from leadsman_broker.engine import Engine, LeaseCall
from leadsman_broker.http import views
from leadsman_broker.http.exchange import CallerGoneError, Exchange, Response, json_response
from leadsman_broker.http.lease_reply import lease_reply
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.routing import Route
from leadsman_broker.http.tasks import new_task

_LEASES = "/v1/namespaces/{namespace}/leases"
_WORKERS = frozenset({Role.WORKER})


class LeaseCalls:
    """The handlers of this module's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """List the calls."""
        settle = "Settle leases: "
        return [
            Route("POST", _LEASES, self.lease, _WORKERS, "Lease tasks, waiting for work", LeaseRequest, LeaseReply),
            Route(
                "POST",
                _LEASES + "/heartbeat",
                self.heartbeat,
                _WORKERS,
                "Renew every lease of a worker",
                HeartbeatRequest,
                HeartbeatReply,
            ),
            Route(
                "POST",
                _LEASES + "/once",
                self.once,
                _WORKERS,
                "Store a value for the later attempts of a task",
                OnceRequest,
                OnceReply,
            ),
            Route("POST", _LEASES + "/ack", self.ack, _WORKERS, settle + "done", AckRequest, SettleReply),
            Route("POST", _LEASES + "/nack", self.nack, _WORKERS, settle + "failed", NackRequest, SettleReply),
            Route(
                "POST",
                _LEASES + "/release",
                self.release,
                _WORKERS,
                settle + "given back without a failure",
                ReleaseRequest,
                SettleReply,
            ),
        ]

    async def lease(self, exchange: Exchange) -> Response:
        """Lease tasks; the call may be parked."""
        request = await exchange.read(LeaseRequest)
        call = self._engine.lease(
            Lease(
                call=self._engine.next_call(),
                worker=_worker(exchange, request.worker),
                capabilities=tuple(request.capabilities),
                slots=request.slots,
                free_slots=request.free_slots,
                attempt_id=request.attempt_id,
                held=tuple(request.held),
                free_by_capability=request.free_by_capability,
                wait_seconds=request.wait_seconds,
            )
        )
        if request.wait_seconds and await call.parked:
            exchange.parked = True
            await self._wait(exchange, call)
        grant = await call.ended
        return Response(lease_reply(grant, self._engine.clock.now()))

    async def _wait(self, exchange: Exchange, call: LeaseCall) -> None:
        """Wait for the call's end or its socket's, whichever comes first."""
        gone = asyncio.ensure_future(exchange.gone())
        try:
            await asyncio.wait((call.ended, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # A task given in this very moment comes back by itself: the worker's next calls do not list it.
            if not call.ended.done():
                self._engine.abandon(call)
            gone.cancel()
        if not call.ended.done():
            raise CallerGoneError

    async def heartbeat(self, exchange: Exchange) -> Response:
        """Renew leases."""
        request = await exchange.read(HeartbeatRequest)
        command = Heartbeat(
            worker=_worker(exchange, request.worker),
            capabilities=tuple(request.capabilities),
            slots=request.slots,
            draining=request.draining,
            leases=tuple(
                Beat(item.token, _checkpoint(item), item.progress_seq, _usage(item)) for item in request.leases
            ),
        )
        (outcome,) = await self._engine.submit([command])
        now = self._engine.clock.now()
        return json_response(views.heartbeat_reply(cast("HeartbeatOutcome", outcome), now))

    async def once(self, exchange: Exchange) -> Response:
        """Store a value under a key, or answer with the first."""
        request = await exchange.read(OnceRequest)
        command = Once(exchange.namespace, request.token, request.key, to_json(request.value))
        (outcome,) = await self._engine.submit([command])
        return Response(views.once_reply(cast("Onced", outcome)))

    async def ack(self, exchange: Exchange) -> Response:
        """Complete tasks."""
        request = await exchange.read(AckRequest)
        namespace = exchange.namespace
        return await self._settle([_ack(namespace, item) for item in request.acks])

    async def nack(self, exchange: Exchange) -> Response:
        """Fail attempts."""
        request = await exchange.read(NackRequest)
        return await self._settle(
            [
                Nack(
                    exchange.namespace,
                    item.token,
                    error_type=item.error.type,
                    error_message=item.error.message,
                    retry=item.retry,
                    retry_after_seconds=item.retry_after_s,
                    checkpoint=_checkpoint(item),
                    usage=_usage(item),
                )
                for item in request.nacks
            ]
        )

    async def release(self, exchange: Exchange) -> Response:
        """Give tasks back."""
        request = await exchange.read(ReleaseRequest)
        return await self._settle(
            [
                Release(
                    exchange.namespace,
                    item.token,
                    delay_seconds=item.delay_seconds,
                    reason=item.reason,
                    checkpoint=_checkpoint(item),
                    usage=_usage(item),
                )
                for item in request.releases
            ]
        )

    async def _settle(self, commands: Sequence[Ack | Nack | Release]) -> Response:
        outcomes = await self._engine.submit(commands)
        return Response(views.settle_reply(cast("list[Settled]", outcomes)))


def _checkpoint(item: CarriesCheckpoint) -> bytes | None:
    return to_json(item.checkpoint) if item.has_checkpoint else None


def _ack(namespace: str, item: AckItem) -> Ack:
    result = None if item.result is None else to_json(item.result)
    return Ack(
        namespace, item.token, result, _usage(item), tuple(new_task(task, task.tenant) for task in item.tasks)
    )


def _usage(item: CarriesUsage) -> Usage | None:
    usage = item.usage
    return None if usage is None else Usage(usage.tokens, usage.cost_micros)


def _worker(exchange: Exchange, worker: WorkerIdentity) -> Worker:
    """Return who calls. Raises ProblemError 403 when the token belongs to another pod."""
    bound = exchange.principal.pod_uid
    if bound is not None and bound != worker.pod_uid:
        raise ProblemError(
            403,
            ProblemCode.FORBIDDEN,
            f"this token belongs to the pod with UID {bound} and cannot speak for the worker in pod "
            f"{worker.pod_uid}; set LEADSMAN_POD_UID from metadata.uid of the worker's own pod",
        )
    return Worker(
        namespace=exchange.namespace,
        pod_uid=worker.pod_uid,
        incarnation=worker.incarnation,
        pool=worker.pool,
        pod_name=worker.pod_name,
    )
