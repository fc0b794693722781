"""A script played in ticks: the fleet is sized, then each worker in order works on or asks for one task."""

import itertools
from dataclasses import dataclass

from leadsman.errors import ConfigurationError
from leadsman.wire.workers import FenceOutcome
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Accepted, Answer, Granted, Saturated
from leadsman_broker.core.settings import Settings
from leadsman_local.fleet import Fleet, Pod
from leadsman_local.scaler import Look, ScaledPool, look, scale_in
from leadsman_local.simulator.agenda import Agenda
from leadsman_local.simulator.broker import NAMESPACE, Ask, VirtualBroker
from leadsman_local.simulator.policies import EPOCH
from leadsman_local.simulator.samples import WorkerSamples
from leadsman_local.simulator.scenario import Plan
from leadsman_local.simulator.ticks_model import Show, TickTask
from leadsman_operator.api import capability_config
from leadsman_operator.scaling import Action, PoolObservation, Signal
from leadsman_operator.scaling.cordons import CordonAction
from leadsman_operator.scaling.scale_in import (
    ClearCost,
    Fence,
    FenceReplied,
    LowerScale,
    ScaleInAction,
    ScaleInEvent,
    ScaleOutcome,
    ScaleReplied,
    SetDeletionCost,
    Unfence,
)


@dataclass(slots=True)
class TickWorker:
    """A worker: one task at a time, one unit of work a tick."""

    pod: Pod
    busy_with: Granted | None = None
    remaining: int = 0
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What the script says of a task."""

    name: str
    ticks: int


class TickWorld:
    """One script. `play` returns the lines it prints."""

    def __init__(self, plan: Plan) -> None:
        ticks = plan.scenario.ticks
        assert ticks is not None  # noqa: S101 - the caller has looked
        self._plan, self._ticks = plan, ticks
        self._agenda = Agenda()
        broker = plan.scenario.broker
        settings = Settings(reclaim_jitter=broker.reclaim_jitter, backoff_jitter=broker.backoff_jitter)
        self._broker = VirtualBroker(self._agenda, settings, f"{plan.scenario.seed}/broker", lambda _: None)
        self._names = sorted(plan.capabilities)
        self._broker.configure([capability_config(plan.capabilities[name], 0.0) for name in self._names])
        numbers = itertools.count(1)
        name = ticks.pool or next(iter(plan.pools), None)
        if name is None or name not in plan.pools:
            raise ConfigurationError("a script in ticks needs one pool; name it in ticks.pool")
        self._pool = ScaledPool(plan.pools[name], Fleet(name, lambda: f"w{next(numbers)}"))
        self._lease_seconds = max(
            plan.capabilities[each].spec.lease.seconds for each in self._pool.spec.capabilities
        )
        self._samples = WorkerSamples(self._broker, {name: float(self._lease_seconds)})
        self._workers: list[TickWorker] = []
        self._known: dict[str, Known] = {}
        self._leased: dict[str, str] = {}
        """Task id -> worker, as of the last look at the broker."""
        self._completed: list[str] = []
        self.log: list[str] = []
        self.refusals: list[str] = []
        self.first_lease: str | None = None

    def play(self) -> list[str]:
        """Play the script and return what is to be printed."""
        ticks = self._ticks
        self._resize(self._pool.spec.min_replicas)
        for task in self._plan.scenario.tasks:
            self._submit(task)
        for tick in range(ticks.count):
            for crash in ticks.crashes:
                if crash.tick == tick:
                    self._crash(crash.worker)
            self._agenda.run(tick * ticks.seconds)
            self._tell_reclaimed()
            self._size()
            for worker in list(self._workers):
                if not worker.crashed:
                    self._work(worker)
        shown: dict[Show, list[str]] = {
            Show.LOG: self.log,
            Show.CLOSING: self._closing(),
            Show.FIRST_LEASE: [] if self.first_lease is None else [f"leased first: {self.first_lease}"],
            Show.REFUSALS: self.refusals,
        }
        return [line for show in ticks.show for line in shown[show]]

    def _submit(self, task: TickTask) -> None:
        for number in range(task.count):
            new = c.NewTask(task.capability, tenant=task.tenant, task_class=task.task_class, priority=task.priority)
            ((outcome,),) = self._broker.send(c.Enqueue(NAMESPACE, (new,)))
            if isinstance(outcome, Accepted):
                name = task.name if task.count == 1 else f"{task.name}{number}"
                self._known[outcome.id] = Known(name, task.ticks)
            elif isinstance(outcome, Saturated):
                self.refusals.append(str(outcome.as_dict()))

    def _crash(self, name: str) -> None:
        for worker in self._workers:
            if worker.pod.uid == name:
                worker.crashed = True
                self.log.append(f"{name} crashed mid-task (lease not renewed)")

    def _tell_reclaimed(self) -> None:
        held = {row.id for row in self._broker.core.state.tasks.values() if row.lease is not None}
        for task_id in [task_id for task_id in self._leased if task_id not in held]:
            del self._leased[task_id]
            self.log.append(f"reclaimed {self._known[task_id].name} from a dead worker")

    def _size(self) -> None:
        """Look at the fleet; a scale-in is carried on until the protocol waits for time to pass."""
        while True:
            found = self._look()
            before = (self._pool.scale_in, self._pool.fleet.replicas)
            self._step_scale_in(found)
            if found.decision.action is Action.SCALE_OUT:
                self._resize(found.decision.replicas)
                depth = sum(self._broker.stats(name).ready for name in self._names)
                self.log.append(f"scale up -> {self._pool.fleet.replicas} workers (depth {depth})")
                return
            if found.decision.action is Action.HOLD or self._pool.fleet.replicas != before[1]:
                return
            if self._pool.scale_in == before[0]:
                return

    def _look(self) -> Look:
        self._samples.refresh(self._broker.take_edges().workers)
        observation = PoolObservation(
            replicas=self._pool.fleet.replicas,
            signal=Signal(EPOCH, 0.0, 0.0),
            workers=self._samples.of(self._pool.name),
            pods=self._pool.fleet.samples(),
            startup_seconds=0.0,
        )
        name = self._pool.name
        samples = self._broker.samples(self._names)
        return look({name: self._pool}, samples, {name: observation}, self._agenda.now)[name]

    def _step_scale_in(self, found: Look) -> None:
        steps = scale_in(found, self._broker.fences(), self._broker.cordons(), self._agenda.now)
        try:
            actions = next(steps)
            while True:
                answers = [answer for action in actions if (answer := self._carry_out(action))]
                actions = steps.send(tuple(answers))
        except StopIteration:
            return

    def _carry_out(self, action: ScaleInAction | CordonAction) -> ScaleInEvent | None:
        fleet = self._pool.fleet
        match action:
            case Fence():
                results = self._broker.fence(action.operation, action.pod_uids, action.ttl_seconds)
                fenced = frozenset(each.pod_uid for each in results if each.outcome is FenceOutcome.FENCED)
                self._follow_fences()
                return FenceReplied(action.operation, EPOCH, fenced)
            case Unfence():
                self._broker.unfence(action.operation, action.pod_uids)
                self._follow_fences()
            case SetDeletionCost(pods=pods):
                fleet.mark(pods, victim=True)
            case ClearCost(pods=pods):
                fleet.mark(pods, victim=False)
            case LowerScale():
                if not fleet.lower(action.to_replicas, action.resource_version):
                    return ScaleReplied(action.operation, ScaleOutcome.CONFLICT)
                self._resize(action.to_replicas)
                self.log.append(f"scale down -> {fleet.replicas} workers")
                return ScaleReplied(action.operation, ScaleOutcome.LOWERED)
            case _:
                pass
        return None

    def _follow_fences(self) -> None:
        fences = self._broker.fences()
        for pod in self._pool.fleet.pods.values():
            pod.set_ready(ready=pod.uid not in fences)

    def _resize(self, replicas: int) -> None:
        fleet = self._pool.fleet
        fleet.write(replicas)
        made, doomed = fleet.reconcile(self._agenda.now)
        for pod in made:
            pod.set_ready(ready=True)
            self._workers.append(TickWorker(pod))
        for pod in doomed:
            fleet.remove(pod)
        self._workers = [worker for worker in self._workers if worker.pod not in doomed]

    def _work(self, worker: TickWorker) -> None:
        if worker.busy_with is None:
            self._ask(worker)
            return
        granted, known = worker.busy_with, self._known[worker.busy_with.task_id]
        worker.remaining -= 1
        if worker.remaining > 0:
            self._broker.send(
                c.Heartbeat(self._who(worker), self._pool.spec.capabilities, 1, leases=(c.Beat(granted.token),))
            )
            return
        (settled,) = self._broker.send(c.Ack(NAMESPACE, granted.token))
        self._leased.pop(granted.task_id, None)
        worker.busy_with = None
        if settled.ok:
            self._completed.append(known.name)
            self.log.append(f"{worker.pod.uid} finished {known.name}")

    def _ask(self, worker: TickWorker) -> None:
        got: list[Granted] = []

        def answered(answer: Answer) -> None:
            got.extend(answer.leases)

        serves = self._pool.spec.capabilities
        for capability in sorted(serves):
            only = {each: int(each == capability) for each in serves}
            self._broker.lease(Ask(self._who(worker), serves, 1, 1, free_by=only, wait_seconds=0.0), answered)
            if got:
                break
        for granted in got:
            known = self._known[granted.task_id]
            worker.busy_with, worker.remaining = granted, known.ticks
            self._leased[granted.task_id] = worker.pod.uid
            self.first_lease = self.first_lease or known.name
            self.log.append(f"{worker.pod.uid} leased {known.name} ({granted.capability})")

    def _who(self, worker: TickWorker) -> c.Worker:
        return c.Worker(NAMESPACE, worker.pod.uid, "1", pool=self._pool.name, pod_name=worker.pod.name)

    def _closing(self) -> list[str]:
        leased = sorted(self._known[task_id].name for task_id in self._leased)
        depth = sum(self._broker.stats(name).ready for name in self._names)
        return [
            f"completed: {sorted(self._completed)}",
            f"still leased (in flight): {leased}",
            f"remaining queue depth: {depth}",
            f"worker count at end: {len(self._workers)}",
        ]


def play(plan: Plan) -> list[str]:
    """Play a scenario's script; return the lines it prints."""
    return TickWorld(plan).play()
