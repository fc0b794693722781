"""Dead-letter queues, on the connection for lists and in portions, so that no read transaction is long."""

from typing import Any

import apsw

from leadsman_broker.store.dead import DeadGroup, DeadQuery, merge_groups
from leadsman_broker.store.interface import TaskPage, TaskRecord
from leadsman_broker.store.sqlite import encoding
from leadsman_broker.store.sqlite.encoding import ENDED_COLUMNS, Queues
from leadsman_broker.store.sqlite.listing import PORTION, PORTIONS
from leadsman_broker.store.sqlite.statements import SQL

GROUPED_PORTION = 20_000
"""Tasks added up in one read transaction."""


class DeadLetters:
    """Reads pages and sums; `queues` is the writer's map and grows while it commits."""

    def __init__(self, db: apsw.Connection, queues: Queues) -> None:
        self._db = db
        self._queues = queues

    def page(self, queue: int, query: DeadQuery, now: float) -> TaskPage:
        """Return a page, of a bounded number of tasks looked at."""
        found: list[TaskRecord] = []
        after = query.after
        for _ in range(PORTIONS):
            last = self._portion_end(queue, after, PORTION)
            if last is None:
                return TaskPage(found, None)
            values = (*_values(queue, after, last, query, now), query.limit - len(found))
            found += [self._record(row) for row in self._db.execute(SQL["list_dead"], values)]
            if len(found) >= query.limit:
                after = found[-1].live.seq
                break
            after = last
        return TaskPage(found, after if self._portion_end(queue, after, 1) is not None else None)

    def groups(self, queue: int, query: DeadQuery, now: float) -> list[DeadGroup]:
        """Add up all that fits."""
        found: list[DeadGroup] = []
        after = 0
        while (last := self._portion_end(queue, after, GROUPED_PORTION)) is not None:
            values = _values(queue, after, last, query, now)
            for reason, error, tasks, first, latest, seq in self._db.execute(SQL["group_dead"], values):
                found.append(DeadGroup(reason, error, tasks, first, latest, seq, "", None))
            after = last
        return [self._with_sample(group) for group in merge_groups(found)]

    def redriven_by(self, operation: str, after: int) -> int:
        """Count the tasks with a seq above `after` that this redrive brought back last."""
        row: Any = self._db.execute(SQL["count_redriven"], (operation, after)).fetchone()
        return int(row[0])

    def _portion_end(self, queue: int, after: int, length: int) -> int | None:
        row: Any = self._db.execute(SQL["next_dead"], (queue, after, length)).fetchone()
        found: int | None = row[0]
        return found

    def _with_sample(self, group: DeadGroup) -> DeadGroup:
        row: Any = self._db.execute(SQL["read_sample"], (group.sample_seq,)).fetchone()
        return group if row is None else group._replace(sample_id=row[0], sample_message=row[1])

    def _record(self, row: tuple[Any, ...]) -> TaskRecord:
        ended = encoding.ended_row(row, self._queues)
        name, key, traceparent, reason, error_type, error_message, result = row[ENDED_COLUMNS:]
        return TaskRecord(ended.live, name, key, traceparent, ended, reason, error_type, error_message, result, ())


def _values(queue: int, after: int, last: int, query: DeadQuery, now: float) -> tuple[Any, ...]:
    return (
        queue,
        after,
        last,
        now,
        query.error_type,
        query.reason,
        query.name,
        query.tenant,
        query.run_id,
        query.died_after,
        query.died_before,
    )
