"""A lane: the ready tasks of one tenant, class and priority, oldest first.

It holds seqs, and an entry counts only while its task is ready: what was cancelled or has expired is skipped when
it comes up, so no operation looks for a task in the middle.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from leadsman_broker.core.tasks import READY, TaskRow

if TYPE_CHECKING:
    from leadsman_broker.core.rotation import Shelf
    from leadsman_broker.core.tenants import Tenant

Tasks = dict[int, TaskRow]


class Lane:
    """First in, first out by seq. A task that comes back takes the place its seq gives it.

    Suspects have lanes of their own.
    """

    __slots__ = (
        "_fresh",
        "_returned",
        "_since",
        "interactive",
        "number",
        "priority",
        "ready",
        "shelf",
        "suspect",
        "tenant",
    )

    def __init__(self, tenant: "Tenant", interactive: int, priority: int, number: int, *, suspect: bool) -> None:
        self.tenant = tenant
        self.interactive = interactive
        """1 or 0: the class of its tasks."""
        self.priority = priority
        self.number = number
        """Lanes of a queue are numbered as they come; the last word among equals."""
        self.suspect = suspect
        self.ready = 0
        self.shelf: Shelf | None = None
        """Where it stands to be picked from; None while it is empty or its tenant is blocked."""
        self._fresh: deque[int] = deque()  # never delayed, never returned: seq order is the order of readiness too
        self._returned: list[int] = []  # heap of seqs
        self._since: list[tuple[float, int]] = []  # heap of (ready since, seq) of the returned

    @property
    def mixed(self) -> bool:
        """Say whether it has, or had, tasks that came back."""
        return bool(self._since)

    def append(self, row: TaskRow) -> None:
        """Add a task with a seq above every task that was ever appended."""
        self._fresh.append(row.seq)
        self.ready += 1

    def insert(self, row: TaskRow, tasks: Tasks) -> None:
        """Add a task that was delayed or comes back."""
        heappush(self._returned, row.seq)
        heappush(self._since, (row.due_at, row.seq))
        self.ready += 1
        if len(self._since) > 2 * len(self._returned) + 64:
            self._since = [(tasks[seq].due_at, seq) for seq in self._returned if seq in tasks]
            heapify(self._since)

    def discard(self) -> None:
        """Count out a task that was not taken; its entry is skipped later."""
        self.ready -= 1

    def head(self, tasks: Tasks) -> TaskRow | None:
        """Return the oldest task."""
        fresh = self._first_fresh(tasks)
        if not self._returned:
            return fresh
        returned = self._first_returned(tasks)
        if fresh is None:
            return returned
        if returned is None or fresh.seq < returned.seq:
            return fresh
        return returned

    def take(self, row: TaskRow) -> None:
        """Remove the task that `head` has just returned."""
        self.ready -= 1
        if self._fresh and self._fresh[0] == row.seq:
            self._fresh.popleft()
        else:
            heappop(self._returned)

    def oldest_since(self, tasks: Tasks) -> float | None:
        """Return since when the longest waiting task has been ready."""
        fresh = self._first_fresh(tasks)
        returned = self._first_since(tasks)
        if fresh is None:
            return None if returned is None else returned.due_at
        return fresh.due_at if returned is None else min(fresh.due_at, returned.due_at)

    def ready_for(self, seconds: float, now: float, tasks: Tasks, limit: int) -> list[TaskRow]:
        """Return tasks that came back and have been ready for so long, at most `limit`; the caller takes them."""
        found: list[TaskRow] = []
        while len(found) < limit and (row := self._first_since(tasks)) is not None and row.due_at + seconds <= now:
            heappop(self._since)
            found.append(row)
        return found

    def rows_before(self, seq: int, tasks: Tasks) -> int:
        """Count the ready tasks with a lower seq. Looks at every entry: for a person who asks, not for a pick."""
        entries = (*self._fresh, *self._returned)
        return sum(entry < seq and self._counts(tasks.get(entry)) for entry in entries)

    def _counts(self, row: TaskRow | None) -> bool:
        return row is not None and row.state is READY and row.suspect is self.suspect

    def _first_fresh(self, tasks: Tasks) -> TaskRow | None:
        entries = self._fresh
        suspect = self.suspect
        while entries:
            row = tasks.get(entries[0])
            if row is not None and row.state is READY and row.suspect is suspect:
                return row
            entries.popleft()
        return None

    def _first_returned(self, tasks: Tasks) -> TaskRow | None:
        entries = self._returned
        while entries:
            row = tasks.get(entries[0])
            if self._counts(row):
                return row
            heappop(entries)
        return None

    def _first_since(self, tasks: Tasks) -> TaskRow | None:
        entries = self._since
        while entries:
            row = tasks.get(entries[0][1])
            counts = row is not None and self._counts(row) and row.due_at == entries[0][0]
            if counts and entries[0][1] not in self.tenant.barred:
                return row
            heappop(entries)
        return None
