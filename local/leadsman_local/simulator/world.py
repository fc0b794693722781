"""One simulation: everything built from a scenario, and the clock that drives it."""

import gc
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Accepted, Granted, Saturated
from leadsman_broker.core.rows import Caps
from leadsman_broker.core.settings import Settings
from leadsman_local.scaler import serving
from leadsman_local.simulator.agenda import Agenda
from leadsman_local.simulator.arrivals import Arrival, Coming, OnRefusal, RunOf, arrivals
from leadsman_local.simulator.broker import NAMESPACE, VirtualBroker
from leadsman_local.simulator.keda import Keda
from leadsman_local.simulator.pods import Nodes, SimulatedPool
from leadsman_local.simulator.policies import Fixed, Leadsman, Policy
from leadsman_local.simulator.providers import VirtualProvider
from leadsman_local.simulator.recorder import Recorder
from leadsman_local.simulator.scenario import DEFAULT_SAMPLES, Plan, Sizing, Work
from leadsman_local.simulator.worker import VirtualWorker
from leadsman_operator.api import capability_config
from leadsman_operator.scaling.startup import told_to_broker

_BEATS = 8
"""Workers renew in so many groups, one after the other, within a heartbeat's time."""
_ROUNDING_SECONDS = 0.001
"""Sums of heartbeat times are not exact."""
_SAMPLE_FLOOR_SECONDS = 1.0


class World:
    """A scenario being played. `progress` is called now and then with the simulated seconds."""

    def __init__(self, plan: Plan, progress: Callable[[float], None] | None = None) -> None:
        self.plan = plan
        self.scenario = scenario = plan.scenario
        self.agenda = Agenda()
        settings = Settings(
            reclaim_jitter=scenario.broker.reclaim_jitter, backoff_jitter=scenario.broker.backoff_jitter
        )
        self.broker = VirtualBroker(self.agenda, settings, f"{scenario.seed}/broker", self._edges)
        self.capability_names = sorted(plan.capabilities)
        self.work = {name: scenario.work.get(name, Work()) for name in self.capability_names}
        self.providers = {name: VirtualProvider(rules) for name, rules in scenario.providers.items()}
        self.recorder = Recorder(self)
        self._progress = progress
        nodes = Nodes(scenario.cluster.pods_per_node)
        self.nodes = nodes
        self.pools: dict[str, SimulatedPool] = {}
        for name, model in sorted(plan.pools.items()):
            rng = self._rng(f"pods/{name}")
            self.pools[name] = SimulatedPool(self, model, nodes, rng, lambda: self._edges(urgent=False))
        self._told: dict[str, float] = {}
        self._tell_rules()
        self.lease_seconds = {
            name: max(self.rules(each).lease_seconds for each in pool.scaled.spec.capabilities)
            for name, pool in self.pools.items()
        }
        rules = [self.rules(name) for name in self.capability_names]
        self.shortest_lease = min(each.lease_seconds for each in rules)
        self._heartbeat_seconds = min(each.heartbeat_seconds or each.lease_seconds / 3 for each in rules)
        self._runs: dict[int, tuple[str, int]] = {}
        """Stream -> the run of its next task, and how many more are of it."""
        self._run_numbers = itertools.count(1)
        runs = any(arrival.run is not None for arrival in scenario.arrivals)
        self.lazy = not runs and not any(each.progress_timeout_seconds for each in rules)
        """Heartbeats that make no difference may be left out; with a progress gate each makes one, and a run that
        fails is told in the next one."""
        self._losses = sorted(loss.at_seconds for loss in scenario.cluster.node_losses)
        self._groups: list[dict[VirtualWorker, None]] = [{} for _ in range(_BEATS)]
        self._joined = itertools.count()
        self._traced_seconds: dict[str, float] = {}
        self._arriving_seconds: float | None = None
        """Of the task that is being submitted: it may be in a worker's hands before its id is known here."""
        self.policy: Policy = self._make_policy()

    def run(self) -> Recorder:
        """Play it to its end."""
        scenario = self.scenario
        for number, arrival in enumerate(scenario.arrivals):
            rng = self._rng(f"arrivals/{number}")
            coming = arrivals(arrival, rng, scenario.duration_seconds, self.plan.folder)
            self._next_arrival(arrival, coming, rng)
        for loss in scenario.cluster.node_losses:
            self.agenda.at(loss.at_seconds, lambda loss=loss: self._lose_nodes(loss.nodes))  # type: ignore[misc]
        self.policy.begin()
        self._beat(0)
        self._sample()
        with _collector_off():
            self.agenda.run(scenario.duration_seconds)
        self.recorder.close()
        return self.recorder

    @property
    def next_loss_at(self) -> float:
        """When the next node dies."""
        return self._losses[0] if self._losses else math.inf

    def rules(self, capability: str) -> CapabilityConfig:
        """Return a queue's rules."""
        return self.broker.core.state.queues[NAMESPACE, capability].rules

    def service_seconds(self, granted: Granted, rng: Random) -> float:
        """Return how long an attempt takes: as the trace says, else by chance."""
        traced = self._traced_seconds.get(granted.task_id, self._arriving_seconds)
        return self.work[granted.capability].seconds.draw(rng) if traced is None else traced

    def joined(self, worker: VirtualWorker) -> None:
        """Have a new worker send heartbeats."""
        self._groups[next(self._joined) % _BEATS][worker] = None

    def crashed(self, worker: VirtualWorker) -> None:
        """End a worker's process."""
        self.recorder.crashes += 1
        self.pools[worker.who.pool or ""].crash(worker)

    def startup_measured(self) -> None:
        """Tell the broker the start-up times, if they have changed by enough to be told."""
        if self._told != self._startup():
            self._tell_rules()

    def _make_policy(self) -> Policy:
        scaler = self.scenario.scaler
        if scaler.by is Sizing.FIXED:
            return Fixed(self, scaler.replicas)
        if scaler.by is Sizing.KEDA_HPA:
            return Keda(self, scaler.keda)
        return Leadsman(self, scaler.looks_apart(self.scenario.duration_seconds))

    def _edges(self, urgent: bool) -> None:
        if hasattr(self, "policy"):
            self.policy.changed(urgent=urgent)

    def _startup(self) -> dict[str, float]:
        scaled = [pool.scaled for pool in self.pools.values()]
        return {
            name: told_to_broker(pool.startup.seconds for pool in serving(scaled, name))
            for name in self.capability_names
        }

    def _tell_rules(self) -> None:
        self._told = self._startup()
        self.broker.configure([self._config(name) for name in self.capability_names])

    def _config(self, name: str) -> CapabilityConfig:
        pools = serving([pool.scaled for pool in self.pools.values()], name)
        max_slots = sum(pool.spec.max_slots for pool in pools) if pools else None
        return capability_config(self.plan.capabilities[name], self._told[name], max_slots)

    def _next_arrival(self, arrival: Arrival, coming: Iterator[Coming], rng: Random) -> None:
        found = next(coming, None)
        if found is None:
            return

        def arrive() -> None:
            self._submit(arrival, found, rng)
            self._next_arrival(arrival, coming, rng)

        self.agenda.at(found.at, arrive)

    def _submit(self, arrival: Arrival, coming: Coming, rng: Random) -> None:
        task = c.NewTask(
            coming.capability, tenant=coming.tenant, task_class=coming.task_class, priority=coming.priority
        )
        self._arriving_seconds = coming.seconds
        if arrival.run is None:
            (outcomes,) = self.broker.send(c.Enqueue(NAMESPACE, (task,) * coming.count))
        else:
            tasks = [task._replace(run_id=self._run_of(arrival, arrival.run)) for _ in range(coming.count)]
            (outcomes,) = self.broker.send(c.Enqueue(NAMESPACE, tuple(tasks)))
        self._arriving_seconds = None
        accepted = 0
        again = 0.0
        for outcome in outcomes:
            if isinstance(outcome, Accepted):
                accepted += 1
                if coming.seconds is not None:
                    self._traced_seconds[outcome.id] = coming.seconds
            elif isinstance(outcome, Saturated):
                again = max(again, float(outcome.retry_after_s))
        refused = coming.count - accepted
        self.recorder.submit(accepted, refused)
        if refused and again and arrival.on_refusal is OnRefusal.RETRY:
            left = Coming(
                self.agenda.now, coming.capability, refused, coming.tenant, coming.task_class, coming.priority,
                coming.seconds,
            )  # fmt: skip
            self.agenda.after(again * (1 + 0.25 * rng.random()), lambda: self._submit(arrival, left, rng))

    def _run_of(self, arrival: Arrival, rules: RunOf) -> str:
        """Return the run of the next task of a stream; the run is made with its first task."""
        name, left = self._runs.get(id(arrival), ("", 0))
        if not left:
            name, left = f"run-{next(self._run_numbers)}", rules.tasks
            caps = Caps(rules.max_tokens, rules.max_cost_micros, rules.max_seconds, rules.max_tasks)
            self.broker.send(c.PutRun(NAMESPACE, name, caps))
        self._runs[id(arrival)] = (name, left - 1)
        return name

    def _lose_nodes(self, count: int) -> None:
        self._losses.pop(0)
        lost = self.nodes.lose(count)
        for pool in self.pools.values():
            pool.lose_nodes(lost)

    def _beat(self, group: int) -> None:
        """Let one group of workers renew, in one step: what arrives together is applied together."""
        members = self._groups[group]
        for worker in [worker for worker in members if not worker.alive]:
            del members[worker]
        until = self.agenda.now + self._heartbeat_seconds + _ROUNDING_SECONDS
        workers = [worker for worker in members if worker.must_beat(until)]
        if workers:
            outcomes = self.broker.beat([worker.heartbeat() for worker in workers])
            for worker, outcome in zip(workers, outcomes, strict=True):
                if worker.alive:
                    worker.hear(outcome.leases)
        self.agenda.after(self._heartbeat_seconds / _BEATS, lambda: self._beat((group + 1) % _BEATS))

    def _sample(self) -> None:
        self.recorder.sample()
        seconds = self.scenario.sample_seconds
        if seconds is None:
            seconds = max(self.scenario.duration_seconds / DEFAULT_SAMPLES, _SAMPLE_FLOOR_SECONDS)
        if self._progress is not None:
            self._progress(self.agenda.now)
        self.agenda.after(seconds, self._sample)

    def _rng(self, name: str) -> Random:
        """Return a source of chance of its own, so that one part's draws do not shift another's."""
        return Random(f"{self.scenario.seed}/{name}")  # noqa: S311 - chance, not secrets


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the cyclic collector out of a run: it searches a growing heap in which hardly anything is a cycle."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def simulate(plan: Plan, progress: Callable[[float], None] | None = None) -> World:
    """Play a scenario to its end and return its world."""
    world = World(plan, progress)
    world.run()
    return world
