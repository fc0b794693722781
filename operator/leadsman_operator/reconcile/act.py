"""Carrying a decision out: make or apply the Deployment, write the replicas, mark the busy pods."""

import asyncio
import dataclasses

import structlog

from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.pods import annotate
from leadsman_operator.kube.resources import Kind
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.look import Look
from leadsman_operator.reconcile.marks import MarkChange, mark_changes
from leadsman_operator.reconcile.observe import Object, Observer
from leadsman_operator.reconcile.replicas import Leadership, ReplicaWriter, WriteOutcome
from leadsman_operator.reconcile.scale_in import ScaleInDriver
from leadsman_operator.reconcile.workload import Plan, Workloads
from leadsman_operator.scaling.model import Action

_log = structlog.get_logger(__name__)

_SOON_SECONDS = 0.25
"""After a write that somebody's change forestalled: the watch brings the change within this time, mostly sooner."""
_PACE_SECONDS = 0.25
"""Until the pace of pod patches allows another one."""
_MARK_AGAIN_SECONDS = 5.0
"""After a mark that could not be written. Nothing else may happen to the pool for long: a task of an hour began."""


class Actor:
    """Writes what a look decided; methods return in how many seconds the pool wants another look by itself."""

    def __init__(
        self,
        *,
        client: KubeClient,
        cache: Cache,
        observer: Observer,
        workloads: Workloads,
        writer: ReplicaWriter,
        scale_in: ScaleInDriver,
        events: EventRecorder,
        leadership: Leadership,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._cache = cache
        self._observer = observer
        self._workloads = workloads
        self._writer = writer
        self._scale_in = scale_in
        self._events = events
        self._leadership = leadership
        self._metrics = metrics

    async def act(self, look: Look) -> float | None:
        """Do what is to be done. Raises ApiError and UnreachableError when the Deployment could not be applied."""
        pool, record, plan = look.pool, look.record, look.standing.plan
        if plan is Plan.CREATE:
            return await self._create(look)
        if look.around.deployment is None:
            return None
        now = asyncio.get_running_loop().time()
        agains: list[float | None] = [record.contention.take_back_in(pool.generation, now)]
        # Also before growing: a worker that is kept can take a task at once, a new one only when it has started.
        agains.append(await self._scale_in.step(look, self._observer.fences(), self._observer.cordons()))
        if look.decision.action is Action.SCALE_OUT and not record.contention.active:
            agains.append(await self._grow(look, look.around.deployment))
        if plan is Plan.APPLY:
            await self._apply(look, look.around.deployment)
        agains.append(await self._mark(look))
        return min((again for again in agains if again is not None), default=None)

    async def rest(self, look: Look) -> float | None:
        """Do nothing but end what was begun: lift the fences and costs of a scale-in that is not to go on."""
        still = dataclasses.replace(look.decision, action=Action.HOLD)
        return await self._scale_in.step(
            dataclasses.replace(look, decision=still), self._observer.fences(), self._observer.cordons()
        )

    async def _create(self, look: Look) -> float | None:
        pool, replicas = look.pool, look.decision.replicas
        if look.standing.desired is not None and await self._workloads.create(
            pool, look.record, look.standing.desired, replicas
        ):
            # Before what may still fail: it is there, with this number of replicas.
            note = f"Deployment {pool.name} made with {replicas} replicas; {look.decision.summary}"
            self._events.record(pool.obj, EventReason.DEPLOYMENT_CREATED, note, action="Create")
            look.record.is_made()
            await self._workloads.own_replicas(pool, replicas)
        return None

    async def _apply(self, look: Look, found: Object) -> None:
        pool = look.pool
        if look.standing.desired is not None and await self._workloads.apply(
            pool, look.record, found, look.standing.desired
        ):
            note = f"template of Deployment {pool.name} applied"
            self._events.record(pool.obj, EventReason.DEPLOYMENT_UPDATED, note, action="Apply")

    async def _grow(self, look: Look, deployment: Object) -> float | None:
        pool, record, decision = look.pool, look.record, look.decision
        outcome = await self._writer.write(pool, record, deployment, decision.replicas)
        if outcome is not WriteOutcome.WRITTEN:
            return _SOON_SECONDS
        now = asyncio.get_running_loop().time()
        if record.signal_arrived_at is not None:
            self._metrics.signal_to_scale.observe(now - record.signal_arrived_at)
        ages = [part.oldest_age_seconds for part in look.observation.work if part.oldest_age_seconds is not None]
        if decision.current == 0 and ages:
            self._metrics.enqueue_to_scale.observe(max(ages))
        self._events.record(pool.obj, EventReason.SCALED_OUT, decision.summary, action=decision.action.value)
        return None

    async def _mark(self, look: Look) -> float | None:
        """Mark busy pods and unmark idle ones, as many as the pace allows."""
        if not look.decision.signal_healthy:
            return None
        chosen: list[MarkChange] = []
        again: float | None = None
        for change in mark_changes(look.observation, look.around.pods, look.pool.spec.scale_in_idle_seconds):
            if not look.record.pace.take():
                again = _PACE_SECONDS
                break
            chosen.append(change)
        written = await self._annotate(look.pool.namespace, chosen)
        return again if written else _MARK_AGAIN_SECONDS

    async def _annotate(self, namespace: str, changes: list[MarkChange]) -> bool:
        """Write the marks; say whether all of them are written, or not to be any more."""
        if not changes:
            return True
        self._leadership.check()
        return all(await asyncio.gather(*(self._annotate_one(namespace, change) for change in changes)))

    async def _annotate_one(self, namespace: str, change: MarkChange) -> bool:
        try:
            pod = await annotate(self._client, namespace, change.name, change.uid, change.annotations)
        except (ApiError, UnreachableError) as error:
            _log.warning("mark not written", namespace=namespace, pod=change.name, error=str(error))
            return False
        if pod is not None:
            self._cache.put(Kind.POD, pod)
        return True
