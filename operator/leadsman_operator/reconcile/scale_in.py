"""Carries out what the scale-in protocol asks for, and reports the answers to it.

The protocol itself, its states and deadlines, is `leadsman_operator.scaling.advance`; nothing is decided here.
"""

import asyncio
import secrets
from collections.abc import Mapping

import structlog

from leadsman.wire.workers import FenceOutcome
from leadsman_operator.api import max_draining
from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.errors import BrokerError, BrokerUnreachableError
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.pods import DELETION_COST, annotate
from leadsman_operator.kube.resources import Kind
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.cordons import CordonKeeper, cordon_operation
from leadsman_operator.reconcile.look import Look
from leadsman_operator.reconcile.pools import Pool
from leadsman_operator.reconcile.record import PoolRecord
from leadsman_operator.reconcile.replicas import Leadership, ReplicaWriter, WriteOutcome
from leadsman_operator.scaling import advance, next_deadline
from leadsman_operator.scaling.model import Decision, PodName
from leadsman_operator.scaling.scale_in import (
    VICTIM_DELETION_COST,
    ClearCost,
    Evidence,
    Fence,
    FenceReplied,
    Fencing,
    Idle,
    LowerScale,
    ReadScale,
    RecordWrongVictim,
    ScaleInAction,
    ScaleInEvent,
    ScaleInState,
    ScaleInView,
    ScaleOutcome,
    ScaleRead,
    ScaleReplied,
    SetDeletionCost,
    Unfence,
)

_log = structlog.get_logger(__name__)

_BROKER_SECONDS = 5.0
"""For one fence or unfence, below the protocol's deadline for fences; a slower broker is asked again later.

An answer that is given up is a fence that stands for nothing and a longer pause before the next try: under a burst
of scale-ins on a busy machine a broker may well take seconds.
"""
_LOWER_SECONDS = 10.0
"""For lowering the scale, tries included: below the protocol's own deadline, so that no write outlives it."""
_ROUNDS = 8
"""Answers that one look may hand back to the protocol; more would mean that it asks for the same thing again."""

_OUTCOMES = {
    WriteOutcome.WRITTEN: ScaleOutcome.LOWERED,
    WriteOutcome.OTHER_WRITER: ScaleOutcome.CONFLICT,
    WriteOutcome.CHANGED: ScaleOutcome.CONFLICT,
    WriteOutcome.FAILED: ScaleOutcome.FAILED,
}


class ScaleInDriver:
    """Drives the protocol of one pool at a time."""

    def __init__(
        self,
        *,
        client: KubeClient,
        cache: Cache,
        broker: BrokerClient,
        leadership: Leadership,
        writer: ReplicaWriter,
        events: EventRecorder,
        cordons: CordonKeeper,
        metrics: Metrics,
    ) -> None:
        self._cordons = cordons
        self._client = client
        self._cache = cache
        self._broker = broker
        self._leadership = leadership
        self._writer = writer
        self._events = events
        self._metrics = metrics

    async def step(self, look: Look, fences: Mapping[str, str], cordons: Mapping[str, str]) -> float | None:
        """Bring the protocol as far as it gets now; return in how many seconds it wants to be called by itself.

        `fences` and `cordons`: pod UID -> operation, of all that are in force.
        """
        loop = asyncio.get_running_loop()
        pool, record, around = look.pool, look.record, look.around
        view = ScaleInView(
            spec=pool.spec,
            observation=look.observation,
            decision=look.decision,
            operation=f"{pool.uid}.{secrets.token_hex(6)}",
            resource_version=around.resource_version,
            fences=fences,
            replica_set=around.replica_set_sample(),
            max_draining=max_draining(pool.model, look.observation.replicas),
            cordon_operation=cordon_operation(pool.uid),
            cordons=cordons,
        )
        again = await self._cordons.keep(look, view)
        events: tuple[ScaleInEvent, ...] = ()
        for _ in range(_ROUNDS):
            before = record.scale_in
            record.scale_in, actions = advance(before, view, events, loop.time())
            self._tell(pool, record, before, record.scale_in, loop.time())
            if not actions:
                break
            self._leadership.check()
            answers = await asyncio.gather(*(self._carry_out(look, action) for action in actions))
            events = tuple(answer for answer in answers if answer is not None)
            if not events:
                break
        deadline = next_deadline(record.scale_in, loop.time())
        waits = (again, None if deadline is None else max(0.0, deadline - loop.time()))
        return min((wait for wait in waits if wait is not None), default=None)

    async def _carry_out(self, look: Look, action: ScaleInAction) -> ScaleInEvent | None:
        match action:
            case Fence():
                return await self._fence(action)
            case Unfence():
                await self._unfence(action)
            case SetDeletionCost(pods=pods):
                await self._cost(look.pool, pods, str(VICTIM_DELETION_COST))
            case ClearCost(pods=pods):
                await self._cost(look.pool, pods, None)
            case LowerScale():
                return await self._lower(look, action)
            case ReadScale():
                return await self._read(look.pool, action)
            case RecordWrongVictim():
                self._metrics.wrong_victims.labels(*look.pool.key).inc()
                note = f"pod {action.pod.name} was taken away although its worker held {action.leases} tasks"
                self._events.record(look.pool.obj, EventReason.WRONG_VICTIM, note, warning=True, action="ScaleIn")
        return None

    async def _fence(self, action: Fence) -> ScaleInEvent | None:
        try:
            async with asyncio.timeout(_BROKER_SECONDS):
                reply = await self._broker.fence(action.operation, action.pod_uids, action.ttl_seconds)
        except (BrokerError, BrokerUnreachableError, TimeoutError) as error:
            _log.warning("fence failed", operation=action.operation, error=str(error))
            return None
        fenced = frozenset(r.pod_uid for r in reply.results if r.outcome is FenceOutcome.FENCED)
        return FenceReplied(action.operation, reply.epoch, fenced)

    async def _unfence(self, action: Unfence) -> None:
        try:
            async with asyncio.timeout(_BROKER_SECONDS):
                await self._broker.unfence(action.pod_uids, action.operation)
        except (BrokerError, BrokerUnreachableError, TimeoutError) as error:
            _log.warning("unfence failed", operation=action.operation, error=str(error))

    async def _cost(self, pool: Pool, pods: tuple[PodName, ...], value: str | None) -> None:
        await asyncio.gather(*(self._annotate(pool, pod, value) for pod in pods))

    async def _annotate(self, pool: Pool, pod: PodName, value: str | None) -> None:
        try:
            changed = await annotate(self._client, pool.namespace, pod.name, pod.uid, {DELETION_COST: value})
        except (ApiError, UnreachableError) as error:
            _log.warning("deletion cost not written", namespace=pool.namespace, pod=pod.name, error=str(error))
            return
        if changed is not None:
            self._cache.put(Kind.POD, changed)

    async def _lower(self, look: Look, action: LowerScale) -> ScaleInEvent | None:
        """Lower the scale; None when no answer came.

        It may have gone through then, and a fence lifted now could make a victim busy: the protocol waits until the
        API server itself says what the number is.
        """
        pool, record, around = look.pool, look.record, look.around
        if around.deployment is None:
            return ScaleReplied(action.operation, ScaleOutcome.FAILED)
        try:
            async with asyncio.timeout(_LOWER_SECONDS):
                outcome = await self._writer.write(
                    pool, record, around.deployment, action.to_replicas, resource_version=action.resource_version
                )
        except TimeoutError:
            outcome = WriteOutcome.UNKNOWN
        if outcome is WriteOutcome.UNKNOWN:
            return None
        if outcome is WriteOutcome.WRITTEN:
            self._events.record(pool.obj, EventReason.SCALED_IN, _lowered(action, look.decision), action="ScaleIn")
        return ScaleReplied(action.operation, _OUTCOMES[outcome])

    async def _read(self, pool: Pool, action: ReadScale) -> ScaleInEvent | None:
        """Read the Deployment past the cache; None when no answer came, and it is asked for again."""
        name = pool.model.deployment_name
        try:
            fresh = await self._client.get(Kind.DEPLOYMENT, pool.namespace, name)
        except (ApiError, UnreachableError) as error:
            _log.warning("deployment not read", namespace=pool.namespace, deployment=name, error=str(error))
            return None
        self._cache.put(Kind.DEPLOYMENT, fresh)
        return ScaleRead(action.operation, int(fresh["spec"].get("replicas") or 0))

    def _tell(self, pool: Pool, record: PoolRecord, before: ScaleInState, after: ScaleInState, now: float) -> None:
        if type(before) is type(after):
            return
        if isinstance(before, Idle) and isinstance(after, Fencing):
            record.fenced_at = now
        elif isinstance(after, Idle) and record.fenced_at is not None:
            self._metrics.fence_seconds.observe(now - record.fenced_at)
            record.fenced_at = None
        step = type(after).__name__
        self._metrics.scale_in_steps.labels(*pool.key, step).inc()
        _log.info(
            "scale-in step",
            namespace=pool.namespace,
            pool=pool.name,
            step=step,
            was=type(before).__name__,
            operation=before.operation.id if not isinstance(before, Idle) else None,
            waits_for=after.waits_for if isinstance(after, Idle) else None,
        )
        if isinstance(before, Evidence) and isinstance(after, Idle) and after.failures > before.operation.failures:
            names = ", ".join(pod.name for pod in before.operation.victims[:5])
            note = f"{after.waits_for}; {names} may take tasks again, next try in {after.not_before - now:.0f} s"
            self._events.record(pool.obj, EventReason.SCALE_IN_ABANDONED, note, action="ScaleIn")


def _lowered(action: LowerScale, decision: Decision) -> str:
    """Say how far the fleet shrank and why; fewer may be free to go than are not needed."""
    if (decision.current, decision.replicas) == (action.from_replicas, action.to_replicas):
        return decision.summary
    return f"{action.from_replicas} -> {action.to_replicas}, on the way of {decision.summary}"
