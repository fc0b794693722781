"""A queue: the tasks of one capability in one namespace, by where they stand, and its rules.

The ready ones stand in its line. It refers to tasks by seq only. All counts are kept as tasks come and go; the
property tests recount them.
"""

from collections import Counter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from leadsman.reasons import Reason
from leadsman.wire.capabilities import CapabilityConfig, OnFull
from leadsman_broker.core.accounts import Budget
from leadsman_broker.core.lanes import Lane, Tasks
from leadsman_broker.core.line import Line
from leadsman_broker.core.pace import Pace
from leadsman_broker.core.rows import QueueKey
from leadsman_broker.core.service_times import DrainRate, ServiceTimes
from leadsman_broker.core.sheddable import Sheddable
from leadsman_broker.core.tasks import DELAYED, LEASED, READY, TaskRow
from leadsman_broker.core.totals import Totals

if TYPE_CHECKING:
    from leadsman_broker.core.waiting import Entry


class Queue:
    """Ready tasks in a line, delayed ones by due time, and counts of both and of the leased."""

    __slots__ = (
        "_delayed",
        "_soon",
        "backing_off",
        "budget",
        "configured",
        "dead",
        "delayed",
        "drain",
        "due_soon",
        "endings",
        "held",
        "kept_at",
        "key",
        "leased",
        "line",
        "opened_at",
        "pace",
        "paused",
        "picks",
        "refusals",
        "rules",
        "service_times",
        "sheddable",
        "totals",
        "waiters",
    )

    def __init__(
        self, key: QueueKey, rules: CapabilityConfig, tasks: Tasks, now: float, *, configured: bool
    ) -> None:
        self.key = key
        self.rules = rules
        self.configured = configured
        """False: no longer listed, kept for the tasks it holds; it takes no new work."""
        self.paused = False
        """Nothing is leased from it."""
        self.line = Line(tasks, rules)
        """The ready tasks, and what each tenant has in flight."""
        self.pace = Pace(rules.leases_per_minute, now)
        self.held: tuple[set[Reason], set[Reason]] = (set(), set())
        """Why all its tasks of a class, background and interactive, wait for something else, see `gates`."""
        self.budget: Budget | None = None
        """What its attempts may use, see `budgets`."""
        self.opened_at = 0.0
        """When it was last opened by a pause, a ceiling or a hold that ended."""
        self.kept_at = 0.0
        """The same as the store knows it, but for a few seconds, see `openings`."""
        self.sheddable: Sheddable | None = None
        """What may be dropped for other work; None: its rules say that nothing may."""
        if rules.on_full is OnFull.DROP_LOWEST_PRIORITY:
            self.sheddable = Sheddable()
        self.delayed = 0
        self.backing_off = 0
        """Of the delayed, those that wait for a retry."""
        self.leased = 0
        self.dead = 0
        self.due_soon = 0
        self.picks = 0
        self.waiters: list[Entry] = []
        """Heap of parked lease calls, see `waiting`."""
        self.service_times = ServiceTimes()
        self.drain = DrainRate()
        self.totals = Totals()
        self.endings: Counter[str] = Counter()
        """Tasks that ended without completing since the process started, by reason."""
        self.refusals: Counter[str] = Counter()
        """Submitted tasks that were refused since then, by code."""
        self._delayed: list[tuple[float, int]] = []
        self._soon: list[tuple[float, int]] = []

    @property
    def ready(self) -> int:
        """Return how many tasks wait for nothing but a lease."""
        line = self.line
        return line.ordinary + line.suspects

    @property
    def depth(self) -> int:
        """Return what admission counts."""
        return self.ready + self.line.barred + self.delayed

    @property
    def is_full(self) -> bool:
        """Say whether as many tasks are in flight as may be."""
        limit = self.rules.max_in_flight
        return limit is not None and self.leased >= limit

    @property
    def holds_tasks(self) -> bool:
        """Say whether dropping the queue would drop a task."""
        return bool(self.depth or self.leased or self.dead)

    def follow(self, rules: CapabilityConfig, now: float) -> list[str | None]:
        """Take over new rules; return whom the ceiling (None) or a cap (a tenant) blocks no longer."""
        was_full = self.is_full
        self.rules = rules
        opened: list[str | None] = []
        if was_full and not self.is_full:
            self.opened_at = now
            opened.append(None)
        self.pace.follow(rules.leases_per_minute, now)
        return [*opened, *self.line.follow(rules, now)]

    def add_fresh(self, row: TaskRow) -> None:
        """Take in a task that is ready at accept."""
        row.state = READY
        self.line.append(row)

    def add_returned(self, row: TaskRow) -> None:
        """Take in a task that comes back and is ready; a suspect waits apart."""
        row.state = READY
        self.line.insert(row)

    def add_delayed(self, row: TaskRow) -> None:
        """Take in a task that is due later."""
        row.state = DELAYED
        self.delayed += 1
        self.line.tenant(row.tenant).delayed += 1
        heappush(self._delayed, (row.due_at, row.seq))
        if row.backing_off:
            self.backing_off += 1
        else:
            heappush(self._soon, (row.due_at, row.seq))

    def remove(self, row: TaskRow) -> None:
        """Let go of a task that is ready or delayed and was not taken; its entries are skipped later."""
        if row.state is DELAYED:
            self._leave_delayed(row)
        else:
            self.line.discard(row)

    def take(self, row: TaskRow, lane: Lane) -> None:
        """Remove a ready task that was picked, the head of this lane; it is the caller's, counted as leased."""
        self.picks += 1
        self.line.take(row, lane, self.picks)
        self.lend(row)

    def lend(self, row: TaskRow) -> None:
        """Count a task as leased."""
        row.state = LEASED
        self.leased += 1
        self.line.begin(row)

    def take_back(self, row: TaskRow, now: float) -> bool:
        """Count a leased task out; it must go somewhere at once. Say whether a ceiling or a cap opened."""
        was_full = self.leased == self.rules.max_in_flight
        if was_full:
            self.opened_at = now
        self.leased -= 1
        return self.line.end(row, now) or was_full

    def next_due(self, tasks: Tasks) -> float | None:
        """Return when the next delayed task is due."""
        return _next(self._delayed, tasks)

    def next_soon(self, tasks: Tasks) -> float | None:
        """Return when the next delayed task, not yet counted, comes within the start-up time."""
        due = _next(self._soon, tasks)
        return None if due is None else due - self.rules.startup_seconds

    def count_soon(self, tasks: Tasks, now: float) -> bool:
        """Count delayed tasks that came within the start-up time into `due_soon`; say whether there were any."""
        before = self.due_soon
        while (comes := self.next_soon(tasks)) is not None and comes <= now:
            row = tasks[heappop(self._soon)[1]]
            row.soon = True
            self.due_soon += 1
        return self.due_soon != before

    def recount_soon(self, tasks: Tasks) -> None:
        """Start `due_soon` anew, after the start-up time has changed."""
        self._soon = []
        self.due_soon = 0
        for due, seq in self._delayed:
            row = tasks.get(seq)
            if row is not None and row.state is DELAYED and row.due_at == due:
                row.soon = False
                if not row.backing_off:
                    self._soon.append((due, seq))
        heapify(self._soon)

    def promote(self, tasks: Tasks, now: float, limit: int) -> int:
        """Make delayed tasks ready that are due, at most `limit`; return how many there were."""
        moved = 0
        while moved < limit and (due := _next(self._delayed, tasks)) is not None and due <= now:
            row = tasks[heappop(self._delayed)[1]]
            self._leave_delayed(row)
            row.backing_off = False
            self.add_returned(row)
            moved += 1
        return moved

    def _leave_delayed(self, row: TaskRow) -> None:
        self.delayed -= 1
        self.line.tenant(row.tenant).delayed -= 1
        if row.backing_off:
            self.backing_off -= 1
        if row.soon:
            row.soon = False
            self.due_soon -= 1


def _next(heap: list[tuple[float, int]], tasks: Tasks) -> float | None:
    while heap:
        due, seq = heap[0]
        row = tasks.get(seq)
        if row is not None and row.state is DELAYED and row.due_at == due:
            return due
        heappop(heap)
    return None
