"""Telling people: the status, the events and the metrics of one look."""

import asyncio
import datetime as dt
from typing import Any

from leadsman.reasons import Reason
from leadsman_operator.api import ConditionStatus, ConditionType
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.resources import Kind
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.conditions import Verdict, said
from leadsman_operator.reconcile.evictions import busy_evictions, going
from leadsman_operator.reconcile.look import Look
from leadsman_operator.reconcile.pools import Pool
from leadsman_operator.reconcile.record import PoolRecord
from leadsman_operator.reconcile.replicas import Leadership
from leadsman_operator.reconcile.status import condition_list, patch_of, write_in
from leadsman_operator.scaling.model import Decision

Object = dict[str, Any]

_GOOD: dict[ConditionType, EventReason] = {
    ConditionType.READY: EventReason.READY,
    ConditionType.SIGNAL_HEALTHY: EventReason.SIGNAL_HEALTHY,
    ConditionType.SCALING_ACTIVE: EventReason.SCALING_ACTIVE,
    ConditionType.SCALING_LIMITED: EventReason.NOT_LIMITED,
    ConditionType.CONFLICT: EventReason.CONFLICT_ENDED,
}
"""The event when a condition comes to be as it should."""

_WARNINGS = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.TEMPLATE_REFUSED,
        Reason.FOREIGN_DEPLOYMENT,
        Reason.DEPLOYMENT_NOT_FOUND,
        Reason.APPLY_FAILED,
        Reason.UNKNOWN_CAPABILITY,
        Reason.PODS_NOT_LABELLED,
        Reason.SIGNAL_LOST,
        Reason.CONFLICT,
        Reason.WORKERS_FAILING,
        Reason.QUOTA_EXCEEDED,
        Reason.CAPABILITY_NOT_SERVED,
    }
)


_SETTLES = frozenset({Reason.SIGNAL_LOST, Reason.UNKNOWN_CAPABILITY})
"""What a pool shows in its first moments, while the Capability that was made with it is still on its way."""

_TOLD: dict[ConditionType, frozenset[str]] = {
    # Why decisions are not carried out is mostly a condition of its own; these two somebody chose.
    ConditionType.SCALING_ACTIVE: frozenset({Reason.POOL_PAUSED.value, Reason.OBSERVING.value}),
    # A fleet at its minimum or on its way is nothing to read about.
    ConditionType.SCALING_LIMITED: frozenset(
        {
            Reason.AT_MAX_REPLICAS.value,
            Reason.WORKERS_FAILING.value,
            Reason.QUOTA_EXCEEDED.value,
            Reason.WORKERS_IDLE_WHILE_TASKS_WAIT.value,
            Reason.CAPABILITY_NOT_SERVED.value,
        }
    ),
}
"""The reasons of these conditions that make an event, and whose end makes one."""

RELIEF_SECONDS = 60.0
"""A bound must have been out of the way for so long before its end is told.

While a queue drains the demand crosses the bound many times; each crossing would be two events that say nothing.
"""


class Reporter:
    """Writes statuses and events of pools, and their metrics."""

    def __init__(self, client: KubeClient, leadership: Leadership, events: EventRecorder, metrics: Metrics) -> None:
        self._client = client
        self._leadership = leadership
        self._events = events
        self._metrics = metrics

    def recall(self, obj: Object, record: PoolRecord) -> None:
        """Take from the status what was announced before this process led, so that nothing is said twice."""
        for condition in (obj.get("status") or {}).get("conditions") or ():
            record.announced[str(condition.get("type"))] = said(condition.get("status"), condition.get("reason"))

    async def status(self, obj: Object, record: PoolRecord, after: Object) -> float | None:
        """Write the status if it is worth it; return in how many seconds it will be, None when nothing is new."""
        loop = asyncio.get_running_loop()
        memory = record.status
        before = memory.written if memory.written is not None else obj.get("status") or {}
        due = write_in(before, after, loop.time() - memory.written_at)
        if due is None or due > 0:
            return due
        self._leadership.check()
        meta = obj["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": patch_of(before, after)}
        try:
            await self._client.merge(Kind.WORKER_POOL, meta["namespace"], meta["name"], body, subresource="status")
        except ApiError as error:
            if error.not_found or error.conflict:
                return None
            raise
        memory.written, memory.written_at = after, loop.time()
        self._metrics.status_writes.labels(Kind.WORKER_POOL.plural).inc()
        return None

    async def invalid(self, obj: Object, record: PoolRecord, verdicts: tuple[Verdict, ...]) -> None:
        """Say that a spec cannot be read."""
        before = record.status.written if record.status.written is not None else obj.get("status") or {}
        generation = int(obj["metadata"].get("generation") or 0)
        now = dt.datetime.now(dt.UTC)
        after = {**before, "observedGeneration": generation}
        after["conditions"] = condition_list(verdicts, generation, before, now)
        self.announce(obj, record, verdicts, asyncio.get_running_loop().time())
        await self.status(obj, record, after)

    def announce(self, obj: Object, record: PoolRecord, verdicts: tuple[Verdict, ...], now: float) -> float | None:
        """Post an event for every condition that changed its status or its reason.

        Returns in how many seconds to look again because something may settle by itself before it is told.
        """
        young = record.young_for(now)
        again: float | None = None
        for verdict in verdicts:
            kind = verdict.type.value
            before = record.announced.get(kind)
            if before == verdict.word:
                record.relieved_at.pop(kind, None)
                continue
            if _relieves(verdict, before):
                wait = record.relieved_at.setdefault(kind, now) + RELIEF_SECONDS - now
                if wait > 0:
                    again = wait if again is None else min(again, wait)
                    continue
            record.relieved_at.pop(kind, None)
            if young > 0 and verdict.reason in _SETTLES:
                again = young if again is None else min(again, young)
                continue
            record.announced[kind] = verdict.word
            good = verdict.reason is Reason.AS_EXPECTED
            if verdict.status is ConditionStatus.UNKNOWN or _no_news(verdict, before):
                continue
            # A pool that has just been made has nothing to recover from; that it is ready is worth a line.
            if good and before is None and verdict.type is not ConditionType.READY:
                continue
            self._events.record(
                obj,
                _GOOD[verdict.type] if good else verdict.reason,
                verdict.message,
                warning=verdict.reason in _WARNINGS,
            )
        return again

    def bounds(self, pool: Pool, record: PoolRecord) -> None:
        """Say so when the bounds of the pool were changed, by an edit or by `kubectl scale`."""
        spec = pool.model.spec
        now = f"{spec.min_replicas}-{spec.max_replicas}"
        before = record.announced.get("bounds")
        record.announced["bounds"] = now
        if before is not None and before != now:
            note = f"min-max replicas {before} -> {now} (kubectl scale workerpool sets minReplicas)"
            self._events.record(pool.obj, EventReason.BOUNDS_CHANGED, note)

    def evictions(self, look: Look) -> None:
        """Say so, once for each pod, when somebody else takes busy workers away."""
        record, observation = look.record, look.observation
        found = busy_evictions(observation, record.going, record.scale_in)
        record.going = going(observation)
        if not found:
            return
        self._metrics.busy_evictions.labels(*look.pool.key).inc(len(found))
        names = ", ".join(f"{pod.name} ({leases})" for pod, leases in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        grace = look.pool.model.spec.drain.grace_seconds
        note = f"taken away with tasks, not by a scale-in: {names}{more}; each has {grace} s to end them"
        self._events.record(look.pool.obj, EventReason.BUSY_EVICTION, note, warning=True, action="Observe")

    def measure(
        self, pool: Pool, decision: Decision, before: Decision | None, verdicts: tuple[Verdict, ...]
    ) -> None:
        """Update the pool's metrics; a decision counts when it differs from the one before."""
        metrics, key = self._metrics, pool.key
        if before is None or (before.action, before.replicas, before.reason) != (
            decision.action,
            decision.replicas,
            decision.reason,
        ):
            metrics.decisions.labels(*key, decision.action.value, decision.reason.value).inc()
            for clamp in decision.clamps:
                metrics.clamps.labels(*key, clamp.reason.value).inc()
        metrics.desired_replicas.labels(*key).set(decision.replicas)
        metrics.replicas.labels(*key).set(decision.current)
        for verdict in verdicts:
            metrics.condition.labels(*key, verdict.type.value).set(verdict.status is ConditionStatus.TRUE)


def _relieves(verdict: Verdict, before: str | None) -> bool:
    """Whether the bound that was last told is out of the way now."""
    if verdict.type is not ConditionType.SCALING_LIMITED or before is None:
        return False
    told = _TOLD[verdict.type]
    return before.partition(" ")[2] in told and verdict.reason.value not in told


def _no_news(verdict: Verdict, before: str | None) -> bool:
    """Whether nobody has to be told: another condition tells it, or a bound does what it is there for."""
    told = _TOLD.get(verdict.type)
    if told is None:
        return False
    if verdict.reason is Reason.AS_EXPECTED:
        return before is None or before.partition(" ")[2] not in told
    return verdict.reason.value not in told
