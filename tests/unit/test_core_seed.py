"""The requirement's own examples 3, 4 and 5, played through the real core on a virtual clock."""

import random
from dataclasses import dataclass

from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core
from leadsman_broker.core.results import Accepted, Granted, Saturated
from leadsman_broker.core.rows import Loaded, Stored
from leadsman_broker.core.settings import Settings

NAMESPACE = "seed"
CAPABILITIES = ("code", "llm", "search")
SECOND = 0.25
"""A tick of the examples is four steps of the broker: timers run between ticks too."""


@dataclass
class SimWorker:
    """A worker of the examples: one task at a time, `cost` ticks of work, and maybe dead."""

    name: str
    busy_with: Granted | None = None
    remaining: int = 0
    crashed: bool = False


class Seed:
    """The examples' loop, with the real core in place of their broker."""

    def __init__(self, lease_seconds: float = 2, **rules) -> None:
        self.now = 0.0
        self.rand = random.Random(1)
        settings = Settings(reclaim_jitter=0.0)
        self.core = Core(Stored(tasks=[]), self.now, self.rand, settings)
        self.names: dict[str, str] = {}
        self.cost: dict[str, int] = {}
        self.completed: list[str] = []
        self.log: list[str] = []
        self.calls = 0
        self.step(
            c.Configure(
                NAMESPACE,
                1,
                tuple(CapabilityConfig(name=name, lease_seconds=lease_seconds, **rules) for name in CAPABILITIES),
            )
        )

    def step(self, *commands: c.Command):
        return self.core.step(commands, Loaded(), self.now, self.rand)

    def submit(self, name: str, capability: str, cost: int = 1, priority: int = 0):
        task = c.NewTask(capability, name=name, priority=priority)
        outcome = self.step(c.Enqueue(NAMESPACE, (task,))).results[0][0]
        if isinstance(outcome, Accepted):
            self.names[outcome.id] = name
            self.cost[outcome.id] = cost
        return outcome

    def lease(self, worker: str, capabilities: tuple[str, ...] = CAPABILITIES) -> Granted | None:
        self.calls += 1
        who = c.Worker(NAMESPACE, worker, "1")
        answers = self.step(c.Lease(self.calls, who, capabilities, 1, 1, f"a{self.calls}")).answers
        (answer,) = answers
        return answer.leases[0] if answer.leases else None

    def tick(self, workers: list[SimWorker]) -> None:
        before = {task_id for task_id in self.names if self._leased(task_id)}
        for _ in range(4):
            self.now += SECOND
            self.step()
        for task_id in sorted(before - {task_id for task_id in self.names if self._leased(task_id)}):
            self.log.append(f"reclaimed {self.names[task_id]} from a dead worker")
        for worker in workers:
            if worker.crashed:
                continue
            if worker.busy_with is not None:
                self._work(worker)
                continue
            worker.busy_with = self.lease(worker.name)
            if worker.busy_with is not None:
                worker.remaining = self.cost[worker.busy_with.task_id]
                name = self.names[worker.busy_with.task_id]
                self.log.append(f"{worker.name} leased {name} ({worker.busy_with.capability})")

    def _work(self, worker: SimWorker) -> None:
        granted = worker.busy_with
        worker.remaining -= 1
        if worker.remaining > 0:
            who = c.Worker(NAMESPACE, worker.name, "1")
            self.step(c.Heartbeat(who, CAPABILITIES, 1, leases=(c.Beat(granted.token),)))
            return
        assert self.step(c.Ack(NAMESPACE, granted.token)).results[0].ok
        self.completed.append(self.names[granted.task_id])
        self.log.append(f"{worker.name} finished {self.names[granted.task_id]}")
        worker.busy_with = None

    def _leased(self, task_id: str) -> bool:
        return any(row.id == task_id and row.lease is not None for row in self.core.state.tasks.values())


def test_example_3_the_orphaned_task_of_a_dead_worker_is_reclaimed_and_finished_by_another():
    seed = Seed(lease_seconds=2)
    for number, (capability, cost, priority) in enumerate(
        [("llm", 2, 0), ("llm", 3, 0), ("search", 1, 0), ("code", 4, 1), ("code", 2, 0), ("llm", 4, 0)]
    ):
        seed.submit(f"t{number}", capability, cost, priority)
    workers = [SimWorker("w1"), SimWorker("w2")]
    for tick in range(24):
        if tick == 1:
            workers[0].crashed = True
        seed.tick(workers)

    assert seed.log[0] == "w1 leased t3 (code)"
    reclaimed = seed.log.index("reclaimed t3 from a dead worker")
    leased_again = seed.log.index("w2 leased t3 (code)")
    finished = seed.log.index("w2 finished t3")
    assert reclaimed < leased_again < finished
    assert sorted(seed.completed) == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert not any(seed._leased(task_id) for task_id in seed.names)
    assert all(seed.core.queue_stats((NAMESPACE, name), seed.now).ready == 0 for name in CAPABILITIES)


def test_example_4_the_high_priority_is_leased_first():
    seed = Seed()
    seed.submit("low", "code", priority=0)
    seed.submit("high", "code", priority=5)
    assert seed.names[seed.lease("w1", ("code",)).task_id] == "high"


def test_example_5_a_saturated_queue_refuses_in_the_words_of_the_requirement():
    seed = Seed(max_depth=100)
    for number in range(101):
        assert isinstance(seed.submit(f"x{number}", "llm"), Accepted)
    refused = seed.submit("run-200", "llm")
    assert isinstance(refused, Saturated)
    assert refused.as_dict() == {"accepted": False, "reason": "pool saturated", "retry_after_s": 30}
