"""Leasing tasks, keeping the leases, settling them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from leadsman_broker.auth import Principal, Role
from leadsman_broker.core.commands import Ack, Beat, Heartbeat, Lease, Nack, Once, Release, Worker
from leadsman_broker.core.results import HeartbeatOutcome, Onced, Result, Settled
from leadsman_broker.core.usage import Usage
from leadsman_broker.engine import Engine, LeaseCall, LeaseGrant
from leadsman_broker.http import views
from leadsman_broker.http.decode import decode
from leadsman_broker.http.exchange import Response, json_response
from leadsman_broker.http.lease_reply import lease_reply
from leadsman_broker.http.new_task import new_task
from leadsman_broker.http.pending import Handled, Pending
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.routing import Route
from leadsman_broker.http.usual import usual_acks

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
            Route(
                "POST",
                _LEASES,
                Handled(self.lease),
                _WORKERS,
                "Lease tasks, waiting for work",
                LeaseRequest,
                LeaseReply,
            ),
            Route(
                "POST",
                _LEASES + "/heartbeat",
                Handled(self.heartbeat),
                _WORKERS,
                "Renew every lease of a worker",
                HeartbeatRequest,
                HeartbeatReply,
            ),
            Route(
                "POST",
                _LEASES + "/once",
                Handled(self.once),
                _WORKERS,
                "Store a value for the later attempts of a task",
                OnceRequest,
                OnceReply,
            ),
            Route("POST", _LEASES + "/ack", Handled(self.ack), _WORKERS, settle + "done", AckRequest, SettleReply),
            Route(
                "POST", _LEASES + "/nack", Handled(self.nack), _WORKERS, settle + "failed", NackRequest, SettleReply
            ),
            Route(
                "POST",
                _LEASES + "/release",
                Handled(self.release),
                _WORKERS,
                settle + "given back without a failure",
                ReleaseRequest,
                SettleReply,
            ),
        ]

    def lease(self, namespace: str, principal: Principal, body: bytes) -> Pending:
        """Lease tasks; the call may be parked."""
        request = decode(LeaseRequest, body)
        call = self._engine.lease(
            Lease(
                call=self._engine.next_call(),
                worker=_worker(namespace, principal, request.worker),
                capabilities=tuple(request.capabilities),
                slots=request.slots,
                free_slots=request.free_slots,
                attempt_id=request.attempt_id,
                held=tuple(request.held),
                free_by_capability=request.free_by_capability,
                wait_seconds=request.wait_seconds,
            )
        )
        return _PendingLease(call.ended, self._leased, bool(request.wait_seconds), call=call, engine=self._engine)

    def _leased(self, grant: LeaseGrant) -> Response:
        return Response(lease_reply(grant, self._engine.clock.now()))

    def heartbeat(self, namespace: str, principal: Principal, body: bytes) -> Pending:
        """Renew leases."""
        request = decode(HeartbeatRequest, body)
        command = Heartbeat(
            worker=_worker(namespace, principal, request.worker),
            capabilities=tuple(request.capabilities),
            slots=request.slots,
            draining=request.draining,
            leases=tuple(
                Beat(item.token, _checkpoint(item), item.progress_seq, _usage(item)) for item in request.leases
            ),
        )
        return Pending(self._engine.submit([command]), self._renewed)

    def _renewed(self, outcomes: list[Result]) -> Response:
        now = self._engine.clock.now()
        return json_response(views.heartbeat_reply(cast("HeartbeatOutcome", outcomes[0]), now))

    def once(self, namespace: str, _: Principal, body: bytes) -> Pending:
        """Store a value under a key, or answer with the first."""
        request = decode(OnceRequest, body)
        command = Once(namespace, request.token, request.key, to_json(request.value))
        return Pending(self._engine.submit([command]), _stored)

    def ack(self, namespace: str, _: Principal, body: bytes) -> Pending:
        """Complete tasks."""
        acks = usual_acks(namespace, body)
        if acks is None:
            acks = [_ack(namespace, item) for item in decode(AckRequest, body).acks]
        return self._settle(acks)

    def nack(self, namespace: str, _: Principal, body: bytes) -> Pending:
        """Fail attempts."""
        request = decode(NackRequest, body)
        return self._settle(
            [
                Nack(
                    namespace,
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

    def release(self, namespace: str, _: Principal, body: bytes) -> Pending:
        """Give tasks back."""
        request = decode(ReleaseRequest, body)
        return self._settle(
            [
                Release(
                    namespace,
                    item.token,
                    delay_seconds=item.delay_seconds,
                    reason=item.reason,
                    checkpoint=_checkpoint(item),
                    usage=_usage(item),
                )
                for item in request.releases
            ]
        )

    def _settle(self, commands: Sequence[Ack | Nack | Release]) -> Pending:
        return Pending(self._engine.submit(commands), _settled)


@dataclass(slots=True, eq=False)
class _PendingLease(Pending):
    call: LeaseCall = field(kw_only=True)
    engine: Engine = field(kw_only=True)

    @property
    def parked(self) -> bool:
        return self.call.parked

    def abandon(self) -> None:
        self.engine.abandon(self.call)


def _stored(outcomes: list[Result]) -> Response:
    return Response(views.once_reply(cast("Onced", outcomes[0])))


def _settled(outcomes: list[Result]) -> Response:
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


def _worker(namespace: str, principal: Principal, worker: WorkerIdentity) -> Worker:
    """Return who calls. Raises ProblemError 403 when the token belongs to another pod."""
    bound = principal.pod_uid
    if bound is not None and bound != worker.pod_uid:
        raise ProblemError(
            403,
            ProblemCode.FORBIDDEN,
            f"this token belongs to the pod with UID {bound} and cannot speak for the worker in pod "
            f"{worker.pod_uid}; set LEADSMAN_POD_UID from metadata.uid of the worker's own pod",
        )
    return Worker(
        namespace=namespace,
        pod_uid=worker.pod_uid,
        incarnation=worker.incarnation,
        pool=worker.pool,
        pod_name=worker.pod_name,
    )
