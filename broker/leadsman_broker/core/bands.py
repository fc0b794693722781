"""The ready tasks of one priority, oldest first.

A band holds seqs, and an entry counts only while its task is ready: what was cancelled or has expired is skipped
when it comes up, so no operation looks for a task in the middle.
"""

from collections import deque
from heapq import heapify, heappop, heappush

from leadsman_broker.core.tasks import READY, TaskRow

Tasks = dict[int, TaskRow]


class Band:
    """First in, first out by seq. A task that comes back takes the place its seq gives it."""

    __slots__ = ("_fresh", "_returned", "_since")

    def __init__(self) -> None:
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
        fresh = _first_of_deque(self._fresh, tasks)
        returned = _first_of_heap(self._returned, tasks)
        if fresh is None:
            return returned
        if returned is None or fresh.seq < returned.seq:
            return fresh
        return returned

    def take(self, tasks: Tasks) -> TaskRow | None:
        """Remove and return the oldest task."""
        row = self.head(tasks)
        if row is None:
            return None
        if self._fresh and self._fresh[0] == row.seq:
            self._fresh.popleft()
        else:
            heappop(self._returned)
        return row

    def oldest_since(self, tasks: Tasks) -> float | None:
        """Return since when the longest waiting task has been ready."""
        fresh = _first_of_deque(self._fresh, tasks)
        since = self._since
        while since:
            row = tasks.get(since[0][1])
            if row is not None and row.state is READY and row.due_at == since[0][0]:
                break
            heappop(since)
        if fresh is None:
            return since[0][0] if since else None
        return min(fresh.due_at, since[0][0]) if since else fresh.due_at


def _first_of_deque(entries: deque[int], tasks: Tasks) -> TaskRow | None:
    while entries:
        row = tasks.get(entries[0])
        if row is not None and row.state is READY:
            return row
        entries.popleft()
    return None


def _first_of_heap(entries: list[int], tasks: Tasks) -> TaskRow | None:
    while entries:
        row = tasks.get(entries[0])
        if row is not None and row.state is READY:
            return row
        heappop(entries)
    return None
