"""A fleet at work on a virtual clock: it takes what the core gives, works for as long as it is told, and acks."""

import random
from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush

from core_rig.rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Accepted, Granted

Work = Callable[[random.Random], float]
"""How many seconds a task takes."""


class Load:
    """Workers of some slots each, and a record of who waited how long and who had how much."""

    def __init__(
        self, rules: CapabilityConfig, *, slots: int, per_worker: int = 1, work: Work, seed: int = 1
    ) -> None:
        self.rig = Rig(rules, seed=seed)
        self.began = self.rig.now
        self.waits: dict[tuple[str, TaskClass], list[float]] = defaultdict(list)
        self.served: list[str] = []
        """Tenants in the order of their leases."""
        self.most_in_flight: dict[str, int] = defaultdict(int)
        self.in_flight: dict[str, int] = defaultdict(int)
        self._work = work
        self._dice = random.Random(f"{seed}:work")
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._per_worker = per_worker
        self._held: dict[str, list[str]] = {}
        self._calls: dict[int, str] = {}
        self._accepted: dict[str, float] = {}
        for number in range(slots // per_worker):
            self._held[f"w{number}"] = []
            self._ask(f"w{number}")

    @property
    def elapsed(self) -> float:
        return self.rig.now - self.began

    def submit(self, count: int, tenant: str, *, at: float = 0.0, **fields) -> None:
        """Enqueue equal tasks after so many seconds."""
        self._at(self.began + at, lambda: self._submit(count, tenant, fields))

    def run(self, seconds: float | None = None) -> None:
        """Go on for a while, or until all work is done."""
        end = float("inf") if seconds is None else self.rig.now + seconds
        while self._events:
            at = self._events[0][0]
            deadline = self.rig.core.next_deadline()
            due = min(at, deadline) if deadline is not None else at
            if due > end:
                break
            self.rig.now = max(self.rig.now, due)
            if at <= self.rig.now:
                heappop(self._events)[2]()
            else:
                self.rig.run()
                self._look()
        if seconds is not None:
            self.rig.now = end

    def _submit(self, count: int, tenant: str, fields: dict) -> None:
        for _ in range(0, count, 500):
            batch = (c.NewTask(CAPABILITY, tenant=tenant, **fields),) * min(500, count)
            count -= len(batch)
            for outcome in self.rig.do(c.Enqueue(NAMESPACE, batch)):
                assert isinstance(outcome, Accepted)
                self._accepted[outcome.id] = self.rig.now
        self._look()

    def _ask(self, worker: str) -> None:
        held = self._held[worker]
        free = self._per_worker - len(held)
        command = self.rig.call(worker, slots=self._per_worker, free=free, wait=1e9, held=held)
        self._calls[command.call] = worker
        self.rig.do(command)
        self._look()

    def _look(self) -> None:
        """Start what was given; a worker with slots left asks again. A call that was displaced brought nothing."""
        answers = self.rig.answers
        while answers:
            call, answer = answers.popitem()
            worker = self._calls.pop(call)
            for lease in answer.leases:
                self._start(worker, lease)
            if answer.leases and len(self._held[worker]) < self._per_worker:
                self._ask(worker)

    def _start(self, worker: str, lease: Granted) -> None:
        self._held[worker].append(lease.token)
        waited = self.rig.now - self._accepted[lease.task_id]
        self.waits[lease.tenant, lease.task_class].append(waited)
        self.served.append(lease.tenant)
        self.in_flight[lease.tenant] += 1
        self.most_in_flight[lease.tenant] = max(self.most_in_flight[lease.tenant], self.in_flight[lease.tenant])
        self._at(self.rig.now + self._work(self._dice), lambda: self._finish(worker, lease))

    def _finish(self, worker: str, lease: Granted) -> None:
        self._held[worker].remove(lease.token)
        self.in_flight[lease.tenant] -= 1
        assert self.rig.ack(lease).ok
        self._look()
        self._ask(worker)

    def _at(self, at: float, do: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (at, self._number, do))


def p95(seconds: list[float]) -> float:
    """The wait that one task in twenty exceeds: the nearest rank."""
    return sorted(seconds)[-(-len(seconds) * 95 // 100) - 1]


def jain(shares: list[int]) -> float:
    """Jain's index: 1 when all have the same, 1/n when one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
