"""Ready tasks in bands by priority, each oldest first.

A band holds seqs, and an entry counts only while its task is ready: what was cancelled or has expired is skipped
when it comes up, so no operation looks for a task in the middle.
"""

from collections import deque
from heapq import heapify, heappop, heappush

from leadsman_broker.core.tasks import READY, TaskRow

Tasks = dict[int, TaskRow]

PRIORITIES = 10


class Shelf:
    """Bands of all priorities, and how many tasks each has. Suspects have a shelf of their own."""

    __slots__ = ("_bands", "_counts", "_suspect", "total")

    def __init__(self, *, suspect: bool) -> None:
        self._suspect = suspect
        self._bands: list[Band | None] = [None] * PRIORITIES
        self._counts = [0] * PRIORITIES
        self.total = 0

    def append(self, row: TaskRow) -> None:
        """Add a task with a seq above every task that was ever appended."""
        self._band(row.priority).append(row)

    def insert(self, row: TaskRow, tasks: Tasks) -> None:
        """Add a task that was delayed or comes back."""
        self._band(row.priority).insert(row, tasks)

    def discard(self, row: TaskRow) -> None:
        """Count a task out that was not taken; its entry is skipped later."""
        self._counts[row.priority] -= 1
        self.total -= 1

    def head(self, tasks: Tasks, *, lowest: bool = False) -> TaskRow | None:
        """Return the oldest task of the highest band that has one, or of the lowest."""
        if not self.total:
            return None
        counts = self._counts
        priority = 0 if lowest else PRIORITIES - 1
        step = 1 if lowest else -1
        while not counts[priority]:
            priority += step
        return self._band_at(priority).head(tasks)

    def take(self, row: TaskRow) -> None:
        """Remove the task that `head` has just returned."""
        self._band_at(row.priority).take(row)
        self.discard(row)

    def oldest_since(self, tasks: Tasks) -> float | None:
        """Return since when the longest waiting task has been ready."""
        found = [
            since
            for priority, count in enumerate(self._counts)
            if count and (since := self._band_at(priority).oldest_since(tasks)) is not None
        ]
        return min(found, default=None)

    def ready_for(self, seconds: float, now: float, tasks: Tasks, limit: int) -> list[TaskRow]:
        """Return tasks that came back and have been ready for so long, at most `limit`; the caller takes them."""
        found: list[TaskRow] = []
        for priority, count in enumerate(self._counts):
            if count:
                found += self._band_at(priority).ready_for(seconds, now, tasks, limit - len(found))
        return found

    def _band(self, priority: int) -> "Band":
        self._counts[priority] += 1
        self.total += 1
        return self._band_at(priority)

    def _band_at(self, priority: int) -> "Band":
        band = self._bands[priority]
        if band is None:
            band = self._bands[priority] = Band(suspect=self._suspect)
        return band


class Band:
    """First in, first out by seq. A task that comes back takes the place its seq gives it."""

    __slots__ = ("_fresh", "_returned", "_since", "_suspect")

    def __init__(self, *, suspect: bool) -> None:
        self._suspect = suspect
        self._fresh: deque[int] = deque()  # never delayed, never returned: seq order is the order of readiness too
        self._returned: list[int] = []  # heap of seqs
        self._since: list[tuple[float, int]] = []  # heap of (ready since, seq) of the returned

    def append(self, row: TaskRow) -> None:
        """Add a task with a seq above every task that was ever appended."""
        self._fresh.append(row.seq)

    def insert(self, row: TaskRow, tasks: Tasks) -> None:
        """Add a task that was delayed or comes back."""
        heappush(self._returned, row.seq)
        heappush(self._since, (row.due_at, row.seq))
        if len(self._since) > 2 * len(self._returned) + 64:
            self._since = [(tasks[seq].due_at, seq) for seq in self._returned if seq in tasks]
            heapify(self._since)

    def head(self, tasks: Tasks) -> TaskRow | None:
        """Return the oldest task."""
        fresh = self._first_fresh(tasks)
        returned = self._first_returned(tasks)
        if fresh is None:
            return returned
        if returned is None or fresh.seq < returned.seq:
            return fresh
        return returned

    def take(self, row: TaskRow) -> None:
        """Remove the task that `head` has just returned."""
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

    def _counts(self, row: TaskRow | None) -> bool:
        return row is not None and row.state is READY and row.suspect is self._suspect

    def _first_fresh(self, tasks: Tasks) -> TaskRow | None:
        entries = self._fresh
        while entries:
            row = tasks.get(entries[0])
            if self._counts(row):
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
            if row is not None and self._counts(row) and row.due_at == entries[0][0]:
                return row
            heappop(entries)
        return None
