"""A cluster in which everybody is late: the ReplicaSet controller, the kubelet, the caches, the replies.

One ordered log of pod changes stands for the API server's watch; the controller and the operator read it from
positions of their own, and neither is ever further behind than `SETTLE_SECONDS`. The controller deletes what its
cache ranks lowest, as the real one does: not ready before ready, then the lower deletion cost, then any. What
happens next, of the many things that could, is drawn from the caller's random numbers: a seed is a schedule.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from leadsman.reasons import Reason
from leadsman_operator.scaling.advance import advance
from leadsman_operator.scaling.cordons import Cordon, Cordons, Uncordon, cordon_busy
from leadsman_operator.scaling.model import (
    Action,
    Decision,
    PodSample,
    PoolObservation,
    PoolSpec,
    Signal,
    WorkerSample,
)
from leadsman_operator.scaling.scale_in import (
    LOWER_DEADLINE_SECONDS,
    SETTLE_SECONDS,
    UNANSWERED_SECONDS,
    ClearCost,
    Fence,
    FenceReplied,
    Idle,
    LowerScale,
    ReadScale,
    RecordWrongVictim,
    ReplicaSetSample,
    ScaleInEvent,
    ScaleInState,
    ScaleInView,
    ScaleOutcome,
    ScaleRead,
    ScaleReplied,
    SetDeletionCost,
    Unfence,
)

BUSY_COST = 1000


@dataclass
class Pod:
    """The truth about one pod and its worker."""

    uid: str
    ready: bool = True
    changed: int = 0
    """Grows with every change of `ready`."""
    cost: int = 0
    terminating: bool = False
    leases: int = 0


@dataclass
class ReplicaSet:
    """As stored in the API server."""

    replicas: int
    generation: int = 1
    observed: int = 1
    current: int = 0
    ready: int = 0


@dataclass
class World:
    """Pods, a broker, a lagging controller and the protocol under test."""

    random: Random
    size: int
    work: int
    target: int
    bare: bool = False
    """Lower the scale at once, with costs but without fence and evidence: what the protocol is there to replace."""
    flapping: bool = False
    """Busy pods fail a readiness probe now and then."""
    marking: bool = False
    """Busy pods carry a high deletion cost from their first lease on."""
    fickle: float = 0.0
    """How often another number of workers is wanted."""
    slots: int = 1
    """Tasks that a worker runs at once."""
    max_draining: int = 100
    """Workers that may be on their way out with tasks in their hands."""
    lossy: float = 0.0
    """How often the API server's answer is lost; the request may have been carried out, or may be later."""

    now: float = 1000.0
    state: ScaleInState = field(default_factory=Idle)
    busy_deleted: list[str] = field(default_factory=list)
    wrong_recorded: list[str] = field(default_factory=list)
    started: int = 0
    pace: float = 1.0
    """Seconds that pass at a time, about."""
    most_cordoned: int = 0
    """Workers that were cordoned with tasks in their hands, at most."""

    def __post_init__(self) -> None:
        self.pods = {f"p{index}": Pod(f"p{index}") for index in range(self.size)}
        self.fences: dict[str, str] = {}
        self.cordons: dict[str, str] = {}
        self.cordoning = Cordons()
        self.deployment_replicas = self.size
        self.deployment_version = 1
        self.replica_set = ReplicaSet(self.size, current=self.size, ready=self.size)
        self.log: list[Pod] = []
        self.logged_at: list[float] = []
        self.controller = Cache(self.pods.values())
        self.operator = Cache(self.pods.values())
        self.expected: set[str] = set()
        self.replica_set_seen = replace(self.replica_set)
        self.deployment_seen = (self.deployment_replicas, self.deployment_version)
        self.broker_seen = self._broker()
        self.requests: deque[Any] = deque()
        self.events: deque[ScaleInEvent] = deque()

    def run(self, steps: int) -> None:
        """Let so many things happen, one at a time; how often each happens is drawn once."""
        choices = self._choices()
        weights = [self.random.choice((0.2, 1.0, 5.0)) for _ in choices]
        self.pace = self.random.choice((0.01, 0.1, 1.0))
        for choice in self.random.choices(choices, weights, k=steps):
            choice()

    def settle(self) -> None:
        """No more work comes; everybody catches up, again and again."""
        self.work = 0
        self.fickle = 0.0
        self.pace = 1.0
        for pod in self._alive():
            pod.leases = 0
            self._change(pod, cost=min(pod.cost, 0))
        for _ in range(400):
            for step in (*self._choices(), self._catch_up):
                step()

    def _choices(self) -> list[Any]:
        return [
            self._lease,
            self._finish,
            self._probe,
            self._control,
            self._deploy,
            self._status,
            self._look,
            self._request,
            self._change_of_mind,
            lambda: self._read(self.controller),
            lambda: self._read(self.operator),
            self._tick,
        ]

    def _change(self, pod: Pod, **changes: Any) -> None:
        pod.changed += changes.get("ready", pod.ready) != pod.ready
        for name, value in changes.items():
            setattr(pod, name, value)
        self.log.append(replace(pod))
        self.logged_at.append(self.now)

    def _alive(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not pod.terminating]

    def _tick(self) -> None:
        """Time passes, and whatever is older than a cache may lag has reached it and been acted on."""
        self.now += self.random.choice((0.5, 1.0, 2.0)) * self.pace
        due = bisect_right(self.logged_at, self.now - SETTLE_SECONDS)
        if due > self.controller.position:
            self.controller.read(self.log, due - self.controller.position)
            self._note_changes()
            self._control()
            self._status()
        if due > self.operator.position:
            self.operator.read(self.log, due - self.operator.position)
            self._look()

    def _lease(self) -> None:
        barred = self.fences.keys() | self.cordons.keys()
        free = [pod for pod in self._alive() if pod.leases < self.slots and pod.uid not in barred]
        if free and self.work:
            pod = self.random.choice(free)
            self.work -= 1
            pod.leases += 1
            if self.marking:
                self._change(pod, cost=BUSY_COST)

    def _finish(self) -> None:
        busy = [pod for pod in self._alive() if pod.leases]
        if busy:
            pod = self.random.choice(busy)
            pod.leases -= 1
            if pod.cost == BUSY_COST and not pod.leases:
                self._change(pod, cost=0)
            self.work += 1  # the load goes on

    def _probe(self) -> None:
        alive = self._alive()
        if alive:
            pod = self.random.choice(alive)
            ready = pod.uid not in self.fences
            if self.flapping and pod.leases and self.random.random() < 0.2:
                ready = False
            if pod.ready != ready:
                self._change(pod, ready=ready)

    def _read(self, cache: "Cache") -> None:
        cache.read(self.log, self.random.randint(1, 3))
        self._note_changes()

    def _note_changes(self) -> None:
        """The controller waits until its own creations and deletions have reached its cache."""
        cached = self.controller.pods
        self.expected = {
            uid
            for uid in self.expected
            if uid not in cached or cached[uid].terminating != self.pods[uid].terminating
        }

    def _deploy(self) -> None:
        if self.replica_set.replicas != self.deployment_replicas:
            self.replica_set.replicas = self.deployment_replicas
            self.replica_set.generation += 1

    def _control(self) -> None:
        """One sync of the ReplicaSet controller, from its own cache."""
        if self.expected:
            return
        active = [pod for pod in self.controller.pods.values() if not pod.terminating]
        excess = len(active) - self.replica_set.replicas
        if excess > 0:
            ranked = sorted(active, key=lambda pod: (pod.ready, pod.cost, self.random.random()))
            for cached in ranked[:excess]:
                self._delete(self.pods[cached.uid])
        elif excess < 0:
            uid = f"p{len(self.pods)}"
            self.pods[uid] = Pod(uid, ready=False)
            self._change(self.pods[uid])
            self.expected.add(uid)
        self.replica_set.observed = self.replica_set.generation
        self.replica_set.current = len(active)
        self.replica_set.ready = sum(pod.ready for pod in active)

    def _delete(self, pod: Pod) -> None:
        if pod.leases:
            self.busy_deleted.append(pod.uid)
        self._change(pod, terminating=True)
        self.expected.add(pod.uid)

    def _status(self) -> None:
        self.replica_set_seen = replace(self.replica_set)
        self.deployment_seen = (self.deployment_replicas, self.deployment_version)

    def _broker(self) -> tuple[tuple[WorkerSample, ...], dict[str, str], dict[str, str]]:
        workers = tuple(
            WorkerSample(
                pod_uid=pod.uid,
                slots=self.slots,
                capabilities=("c",),
                leases=pod.leases,
                leases_by_capability={"c": pod.leases} if pod.leases else {},
                idle_seconds=0.0 if pod.leases else 100.0,
                fenced=pod.uid in self.fences,
                cordoned=pod.uid in self.cordons,
            )
            for pod in self.pods.values()
            if not pod.terminating or pod.leases
        )
        return workers, dict(self.fences), dict(self.cordons)

    def _change_of_mind(self) -> None:
        """Now and then another number of workers is wanted, also in the middle of everything."""
        if self.random.random() < self.fickle:
            self.target = self.random.randint(0, self.size)

    def _look(self) -> None:
        """The operator looks, and hands on what the protocol asks for."""
        if self.random.random() < 0.5:
            self.broker_seen = self._broker()
        if self.bare:
            self._lower_at_once()
            return
        events = [self.events.popleft() for _ in range(len(self.events))]
        view = self._view()
        self.cordoning, cordons = cordon_busy(self.cordoning, view, self.now)
        self.state, actions = advance(self.state, view, events, self.now)
        self.requests.extend((self.now, action) for action in (*cordons, *actions))
        if self.target > self.deployment_replicas:
            self.deployment_replicas = self.target
            self.deployment_version += 1

    def _view(self) -> ScaleInView:
        replicas, version = self.deployment_seen
        workers, fences, cordons = self.broker_seen
        seen = self.replica_set_seen
        self.started += 1
        return ScaleInView(
            spec=PoolSpec("pool", ("c",), 100),
            observation=PoolObservation(
                replicas=replicas,
                signal=Signal("e", 0.0, 0.0),
                workers=workers,
                pods=tuple(
                    PodSample(
                        pod.uid,
                        pod.uid,
                        ready=pod.ready,
                        ready_changed=str(pod.changed),
                        terminating=pod.terminating,
                        deletion_cost=pod.cost,
                    )
                    for pod in self.operator.pods.values()
                ),
            ),
            decision=Decision(
                action=Action.SCALE_IN if self.target < replicas else Action.HOLD,
                current=replicas,
                replicas=min(self.target, replicas),
                recommended=self.target,
                slots=self.target,
                reason=Reason.WORKERS_NOT_NEEDED,
                summary="",
            ),
            operation=f"op-{self.started}",
            resource_version=str(version),
            fences=fences,
            replica_set=ReplicaSetSample(
                replicas=seen.replicas,
                observed=seen.observed == seen.generation,
                current_replicas=seen.current,
                ready_replicas=seen.ready,
            ),
            max_draining=self.max_draining,
            cordon_operation="pool.cordon",
            cordons=cordons,
        )

    def _lower_at_once(self) -> None:
        """Choose by what the broker said, mark, and lower: an honest attempt without fence and evidence."""
        if self.deployment_replicas <= self.target:
            return
        idle = [worker.pod_uid for worker in self.broker_seen[0] if not worker.leases]
        alive = [self.pods[uid] for uid in idle if not self.pods[uid].terminating]
        for pod in alive[: self.deployment_replicas - self.target]:
            self._change(pod, cost=-BUSY_COST)
        if alive:
            self.deployment_replicas = max(self.target, self.deployment_replicas - len(alive))
            self.deployment_version += 1

    def _request(self) -> None:
        """Carry out the oldest request; its reply waits to be taken in."""
        if not self.requests:
            return
        asked_at, request = self.requests.popleft()
        match request:
            case Fence(operation=operation, pod_uids=uids):
                free = {uid for uid in uids if not self.pods[uid].leases}
                fenced = {uid for uid in free if self.fences.get(uid, operation) == operation}
                self.fences.update(dict.fromkeys(fenced, operation))
                self.events.append(FenceReplied(operation, "e", frozenset(fenced)))
            case Unfence(operation=operation, pod_uids=uids):
                for uid in uids:
                    if self.fences.get(uid) == operation:
                        del self.fences[uid]
            case Cordon(operation=operation, pod_uids=uids):
                self.cordons.update({uid: operation for uid in uids if not self.pods[uid].terminating})
                self.most_cordoned = max(self.most_cordoned, sum(self.pods[uid].leases > 0 for uid in self.cordons))
            case Uncordon(pod_uids=uids):
                for uid in uids:
                    self.cordons.pop(uid, None)
            case SetDeletionCost(pods=pods):
                for pod in pods:
                    self._change(self.pods[pod.uid], cost=-BUSY_COST)
            case ClearCost(pods=pods):
                for pod in pods:
                    if self.pods[pod.uid].cost == -BUSY_COST:
                        self._change(self.pods[pod.uid], cost=0)
            case LowerScale(operation=operation, to_replicas=to, resource_version=version):
                lost = self.random.random() < self.lossy
                limit = UNANSWERED_SECONDS if lost else LOWER_DEADLINE_SECONDS
                if lost and self.random.random() < 0.3 and self.now - asked_at < limit:
                    self.requests.append((asked_at, request))  # still on its way
                elif self.now - asked_at < limit and version == str(self.deployment_version):
                    self.deployment_replicas = to
                    self.deployment_version += 1
                    self._answer(lost, ScaleReplied(operation, ScaleOutcome.LOWERED))
                else:
                    self._answer(lost, ScaleReplied(operation, ScaleOutcome.CONFLICT))
            case ReadScale(operation=operation):
                lost = self.random.random() < self.lossy
                self._answer(lost, ScaleRead(operation, self.deployment_replicas))
            case RecordWrongVictim(pod=pod):
                self.wrong_recorded.append(pod.uid)

    def _answer(self, lost: bool, event: ScaleInEvent) -> None:
        """Hand on the API server's answer, which also tells the operator's cache."""
        if not lost:
            self.deployment_seen = (self.deployment_replicas, self.deployment_version)
            self.events.append(event)

    def _catch_up(self) -> None:
        self.controller.read(self.log, len(self.log))
        self.operator.read(self.log, len(self.log))
        self._note_changes()
        self.broker_seen = self._broker()
        for pod in self._alive():
            ready = pod.uid not in self.fences
            if pod.ready != ready:
                self._change(pod, ready=ready)


class Cache:
    """What one reader of the log knows."""

    def __init__(self, pods: Any) -> None:
        self.pods = {pod.uid: replace(pod) for pod in pods}
        self.position = 0

    def read(self, log: list[Pod], count: int) -> None:
        """Take in the next changes."""
        for change in log[self.position : self.position + count]:
            self.pods[change.uid] = replace(change)
        self.position = min(len(log), self.position + count)
