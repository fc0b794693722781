"""The waiting tasks of a queue that may be dropped for others, the last accepted of each priority first.

Kept only by queues whose rules say so. It holds seqs, and an entry counts only while its task is background work
that was never leased: the others are skipped when they come up.
"""

from leadsman.wire.tasks import TaskClass
from leadsman_broker.core.tasks import LEASED, TaskRow

PRIORITIES = 10


class Sheddable:
    """Background tasks that were never leased, by priority, in order of acceptance."""

    __slots__ = ("_compact_at", "_entries", "_stacks")

    def __init__(self) -> None:
        self._stacks: list[list[int]] = [[] for _ in range(PRIORITIES)]
        self._entries = 0
        self._compact_at = 1024

    def add(self, row: TaskRow, tasks: dict[int, TaskRow]) -> None:
        """Note a task that was accepted after all before it; one that may not be dropped is left out."""
        if not _counts(row):
            return
        self._stacks[row.priority].append(row.seq)
        self._entries += 1
        if self._entries >= self._compact_at:
            self._compact(tasks)

    def take(self, below: int, count: int, tasks: dict[int, TaskRow]) -> list[TaskRow]:
        """Remove and return `count` tasks of a priority below `below`: lowest priority first, in it the newest.

        Removes nothing and returns an empty list when there are not so many.
        """
        found: list[TaskRow] = []
        for stack in self._stacks[:below]:
            while stack and len(found) < count:
                row = tasks.get(stack.pop())
                self._entries -= 1
                if row is not None and _counts(row):
                    found.append(row)
        if len(found) == count:
            return found
        self.put_back(found)
        return []

    def put_back(self, rows: list[TaskRow]) -> None:
        """Put back what `take` has just returned."""
        for row in reversed(rows):
            self._stacks[row.priority].append(row.seq)
            self._entries += 1

    def _compact(self, tasks: dict[int, TaskRow]) -> None:
        """Forget the entries that no longer count; often enough that they are never more than the others."""
        for stack in self._stacks:
            stack[:] = [seq for seq in stack if (row := tasks.get(seq)) is not None and _counts(row)]
        self._entries = sum(len(stack) for stack in self._stacks)
        self._compact_at = max(1024, 2 * self._entries)


def _counts(row: TaskRow) -> bool:
    return row.task_class is TaskClass.BACKGROUND and row.epoch == 0 and row.state is not LEASED
