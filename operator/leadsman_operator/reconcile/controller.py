"""One look at one pool: observe, decide, act, tell."""

import asyncio
import dataclasses
import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from leadsman_operator.api import ConditionStatus, ConditionType
from leadsman_operator.kube.cache import Cache, Key
from leadsman_operator.kube.ending import ENDING_SECONDS, UNSURE_SECONDS, EndingNamespaces
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.resources import Kind
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.act import Actor
from leadsman_operator.reconcile.conditions import Found, conditions, invalid
from leadsman_operator.reconcile.divisions import Divisions
from leadsman_operator.reconcile.look import Look
from leadsman_operator.reconcile.observe import Observer, Surroundings
from leadsman_operator.reconcile.pools import Pool, PoolIndex
from leadsman_operator.reconcile.record import PoolRecord, StatusMemory
from leadsman_operator.reconcile.replicas import Leadership
from leadsman_operator.reconcile.reporting import Reporter
from leadsman_operator.reconcile.status import pool_status
from leadsman_operator.reconcile.workload import Workloads
from leadsman_operator.scaling import PoolView, Shares, decide, share
from leadsman_operator.scaling.model import Action, Decision, PoolObservation, ScalingMode
from leadsman_operator.scaling.scale_in import Idle

Object = dict[str, Any]


class PoolController:
    """Looks at pools. `look` is what the work queue calls; a pool is never looked at twice at once."""

    def __init__(
        self,
        *,
        cache: Cache,
        index: PoolIndex,
        observer: Observer,
        workloads: Workloads,
        actor: Actor,
        reporter: Reporter,
        events: EventRecorder,
        leadership: Leadership,
        metrics: Metrics,
        ending: EndingNamespaces,
        conflict_quiet_seconds: float,
        wall_clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._wall_clock = wall_clock
        self._conflict_quiet_seconds = conflict_quiet_seconds
        self._cache = cache
        self._index = index
        self._observer = observer
        self._workloads = workloads
        self._actor = actor
        self._reporter = reporter
        self._events = events
        self._leadership = leadership
        self._metrics = metrics
        self._records: dict[Key, PoolRecord] = {}
        self._divisions = Divisions()
        self._ending = ending
        self._leading_since = 0.0
        self._missed: set[Key] = set()
        """Pools that were to be looked at while we did not lead."""

    def lead(self, now: float) -> None:
        """Begin to lead: nothing that was remembered before counts."""
        self._records.clear()
        self._missed.clear()
        self._leading_since = now

    def take_missed(self) -> list[Key]:
        """Return the pools whose looks fell into a lapse of the leadership, once."""
        missed, self._missed = self._missed, set()
        return sorted(missed)

    def pushed(self, key: Key, now: float) -> None:
        """Note when the broker's push arrived that makes this pool look again."""
        record = self._records.get(key)
        if record is not None and record.signal_arrived_at is None:
            record.signal_arrived_at = now

    def startup_seconds(self, key: Key) -> float | None:
        """Return how long the pool's pods take to start, once it has been looked at."""
        record = self._records.get(key)
        return None if record is None else record.startup.seconds

    async def look(self, key: Key) -> float | None:
        """Bring the pool closer to what it should be; return in how many seconds to look again by itself.

        Infinity when only news can make that necessary; None when there is no such pool, or we do not lead.
        """
        obj = self._cache.get(Kind.WORKER_POOL, *key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            self._forget(key)
            return None
        if not self._leadership.holds():
            self._missed.add(key)
            return None
        record = self._record(key, obj)
        pool = self._index.get(key)
        if pool is None:
            verdicts = invalid(self._index.problem(key) or "unknown")
            await self._reporter.invalid(obj, record, verdicts)
            return math.inf
        with self._metrics.look_seconds.time():
            return await self._look(pool, record)

    async def _look(self, pool: Pool, record: PoolRecord) -> float:
        if self._ending.ends(pool.namespace):
            return ENDING_SECONDS
        self._ask_about_losses(pool, record)
        now = asyncio.get_running_loop().time()
        pool, rebound = pool.at(self._wall_clock())
        look = self._observe(pool, record, now)
        self._reporter.evictions(look)
        if look.around.deployment is None and self._ending.unsure(pool.namespace):
            return UNSURE_SECONDS
        before, record.decision = record.decision, look.decision
        again: float | None = None
        trouble: Exception | None = None
        acting = pool.spec.mode is ScalingMode.ACTIVE and look.standing.problem is None
        try:
            again = await (self._actor.act(look) if acting else self._actor.rest(look))
        except (ApiError, UnreachableError) as error:
            if isinstance(error, ApiError) and error.terminating:
                self._ending.note(pool.namespace)
                return ENDING_SECONDS
            # What was found out is told all the same; the queue repeats the look after a pause.
            trouble = error
        record.signal_arrived_at = None
        told = await self._tell(look, before)
        if trouble is not None:
            raise trouble
        waits = (look.decision.recheck_seconds, again, told, rebound)
        return min((wait for wait in waits if wait is not None), default=math.inf)

    def _ask_about_losses(self, pool: Pool, record: PoolRecord) -> None:
        """Find out whether the namespace ends when something that the pool rests on went, and not by a scale-in."""
        present = self._observer.rests_on(pool)
        if record.rests_on - present and isinstance(record.scale_in, Idle):
            self._ending.ask(pool.namespace)
        record.rests_on = present

    def _observe(self, pool: Pool, record: PoolRecord, now: float) -> Look:
        around = self._observer.surroundings(pool)
        siblings = self._index.scaling(pool.namespace, pool.model.deployment_name)
        standing = self._workloads.standing(pool, record, around, siblings, now)
        self._watch_other_writers(pool, record, around, now)
        observation, decision = self._decide(pool, record, around, now)
        return Look(pool, record, around, standing, observation, decision)

    def _decide(
        self, pool: Pool, record: PoolRecord, around: Surroundings, now: float
    ) -> tuple[PoolObservation, Decision]:
        """Divide the work over the pools that share it, and decide for this one."""
        mine = self._view(pool, record, around, now)
        group = self._index.group(pool.key)
        if len(group) == 1:
            shares = self._share(pool.namespace, [mine], now)
        else:
            others = [each for each in group if each.uid != pool.uid]
            conflicts = tuple(self._record(each.key, each.obj).contention.active for each in group)
            stamp = (self._observer.stamp(pool.namespace), self._index.changes, conflicts)
            shares = self._divisions.of(
                tuple(each.key for each in group),
                stamp,
                now,
                lambda: self._share(pool.namespace, [mine, *(self._other(each, now) for each in others)], now),
            )
        observation = mine.observation.with_work(shares.work.get(pool.name, ()))
        decision, record.memory = decide(pool.spec, observation, record.memory, now)
        return observation, decision

    def _share(self, namespace: str, views: list[PoolView], now: float) -> Shares:
        names = {name for view in views for name in view.spec.capabilities}
        return share(self._observer.samples(namespace, names, now), views)

    def _other(self, pool: Pool, now: float) -> PoolView:
        record = self._record(pool.key, pool.obj)
        return self._view(pool.at(self._wall_clock())[0], record, self._observer.surroundings(pool), now)

    def _view(self, pool: Pool, record: PoolRecord, around: Surroundings, now: float) -> PoolView:
        since = self._leading_since
        return PoolView(pool.spec, self._observer.observation(pool, record, around, leading_since=since, now=now))

    async def _tell(self, look: Look, before: Decision | None) -> float | None:
        """Post events, update metrics and the status; return when the status wants to be written."""
        pool, record = look.pool, look.record
        verdicts = conditions(self._found(look))
        self._reporter.measure(pool, look.decision, before, verdicts)
        # What is gone with its namespace is told to nobody.
        if self._ending.unsure(pool.namespace):
            return UNSURE_SECONDS
        if self._ending.ends(pool.namespace):
            return ENDING_SECONDS
        self._reporter.bounds(pool, record)
        again = self._reporter.announce(pool.obj, record, verdicts, asyncio.get_running_loop().time())
        status = pool_status(
            name=pool.name,
            generation=pool.generation,
            deployment=look.around.deployment,
            observation=look.observation,
            decision=look.decision,
            verdicts=verdicts,
            before=record.status.written or pool.obj.get("status") or {},
            now=self._wall_clock(),
        )
        told = await self._reporter.status(pool.obj, record, status)
        return min((wait for wait in (again, told) if wait is not None), default=None)

    @staticmethod
    def _watch_other_writers(pool: Pool, record: PoolRecord, around: Surroundings, now: float) -> None:
        """Notice or forget other managers of the replicas, as the managed fields show them."""
        record.contention.renew(pool.generation)
        if around.deployment is None or not around.other_managers:
            record.contention.clear()
        elif record.took_scale:
            record.contention.notice(around.other_managers, around.replicas, pool.generation, now)

    @staticmethod
    def _found(look: Look) -> Found:
        record, other = look.record, look.record.contention.other
        waits_for = record.scale_in.waits_for if isinstance(record.scale_in, Idle) else ""
        return Found(
            spec=look.pool.spec,
            observation=dataclasses.replace(look.observation, conflict=record.contention.active),
            decision=look.decision,
            problem=look.standing.problem,
            refused=record.refusal.message if record.refusal is not None else None,
            apply_failed=record.apply_failed,
            pods_labelled=look.around.pods_labelled,
            deployment=look.pool.model.deployment_name,
            other_managers=other.managers if other is not None else (),
            took_scale=record.took_scale,
            took_back=record.contention.took_back_at == look.pool.generation,
            replica_failure=look.around.replica_failure,
            failing=look.around.failing,
            unschedulable=look.around.unschedulable,
            scale_in_waits_for=waits_for if look.decision.action is Action.SCALE_IN else "",
        )

    def _record(self, key: Key, obj: Object) -> PoolRecord:
        uid = obj["metadata"]["uid"]
        record = self._records.get(key)
        if record is None or record.uid != uid:
            now = asyncio.get_running_loop().time()
            record = PoolRecord(uid, now, StatusMemory(now))
            record.contention.quiet_seconds = self._conflict_quiet_seconds
            self._reporter.recall(obj, record)
            record.took_scale = "deploymentRef" not in (obj.get("spec") or {}) or _took_before(obj)
            self._records[key] = record
            self._metrics.know_pool(*key)
            self._ending.begins(key[0])
        return record

    def _forget(self, key: Key) -> None:
        # Also without a record: a pool may go after its last look under an earlier leadership of this process.
        self._metrics.forget_pool(*key)
        self._divisions.forget(key)
        self._missed.discard(key)
        record = self._records.pop(key, None)
        if record is not None:
            self._events.forget(record.uid)
            if self._leadership.holds():
                # Those that share its work are looked at, two hundred times if all go with the namespace.
                self._ending.ask(key[0])


def _took_before(obj: Object) -> bool:
    """Whether the status says that the replicas of the referenced Deployment have been written before."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == ConditionType.CONFLICT.value:
            return bool(condition.get("status") != ConditionStatus.UNKNOWN.value)
    return False
