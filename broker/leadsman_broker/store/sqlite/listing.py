"""Lists of tasks, and sums of the ledger, on a connection of their own."""

import json
from heapq import merge
from typing import Any

import apsw

from leadsman.wire.costs import CostBy
from leadsman_broker.core.rows import RunRow
from leadsman_broker.core.usage import Usage
from leadsman_broker.store.cost import CostLine, CostQuery
from leadsman_broker.store.interface import RunQuery, TaskPage, TaskQuery, TaskRecord
from leadsman_broker.store.sqlite import encoding
from leadsman_broker.store.sqlite.encoding import ENDED_COLUMNS, LIVE_COLUMNS, Queues
from leadsman_broker.store.sqlite.statements import SQL

PORTION = 2_000
"""Tasks looked at in one read transaction: short, so that the log can be copied back in between."""

PORTIONS = 10
"""Portions of one page at most: a filter that hardly any of a million tasks passes costs many small calls."""


class Lister:
    """Reads pages; `queues` is the writer's map and grows while it commits."""

    def __init__(self, db: apsw.Connection, queues: Queues) -> None:
        self._db = db
        self._queues = queues

    def tasks(self, query: TaskQuery, now: float) -> TaskPage:
        """Return a page of tasks, live and ended ones merged in order of acceptance."""
        queues = self._queue_ids(query.namespace, query.capability)
        found: list[TaskRecord] = []
        after = query.after
        for _ in range(PORTIONS):
            first = self._next(after, query.run_id)
            if first is None:
                return TaskPage(found, None)
            last = first + PORTION - 1
            wanted = query.limit - len(found)
            found += self._portion(
                query, (first, last, queues, query.tenant, query.state, now, wanted, query.run_id)
            )
            if len(found) >= query.limit:
                del found[query.limit :]
                after = found[-1].live.seq
                break
            after = last
        return TaskPage(found, after if self._next(after, query.run_id) is not None else None)

    def cost(self, query: CostQuery) -> list[CostLine]:
        """Return sums of the ledger, the dearest item first."""
        queues = self._queue_ids(query.namespace, query.capability)
        bounds = (query.since, query.until, query.tenant, query.run_id, query.limit)
        rows = self._db.execute(SQL["sum_cost"], (query.by, queues, *bounds)).fetchall()
        return [self._cost_line(query.by, row) for row in rows]

    def _cost_line(self, by: CostBy | None, row: tuple[Any, ...]) -> CostLine:
        item = self._queues[row[0]][1] if by is CostBy.CAPABILITY else row[0] or ""
        return CostLine._make((item, *row[1:7], Usage(*row[7:9]), Usage(*row[9:11])))

    def _queue_ids(self, namespace: str, capability: str | None) -> str:
        """Return the numbers of a namespace's queues, or of one of them, as a JSON list."""
        known = list(self._queues.items())
        return json.dumps([number for number, key in known if key[0] == namespace and capability in {None, key[1]}])

    def runs(self, query: RunQuery) -> list[RunRow]:
        """Return a page of runs, the newest first."""
        at, run_id = query.before if query.before is not None else (None, None)
        values = (query.namespace, query.state, at, run_id, query.limit)
        return [encoding.run_row(row) for row in self._db.execute(SQL["list_runs"], values).fetchall()]

    def run(self, namespace: str, run_id: str) -> RunRow | None:
        """Return one run."""
        row: Any = self._db.execute(SQL["read_run"], (namespace, run_id)).fetchone()
        return encoding.run_row(row) if row is not None else None

    def _next(self, after: int, run_id: str | None) -> int | None:
        if run_id is None:
            row: Any = self._db.execute(SQL["next_task"], (after,)).fetchone()
        else:
            row = self._db.execute(SQL["next_task_of_run"], (after, run_id)).fetchone()
        found: int | None = row[0]
        return found

    def _portion(self, query: TaskQuery, values: tuple[Any, ...]) -> list[TaskRecord]:
        """Read both tables at one moment, so that a task that ends meanwhile is in exactly one of them."""
        self._db.execute("BEGIN")
        try:
            live = self._db.execute(SQL["list_live"], values).fetchall()
            ended = self._db.execute(SQL["list_ended"], values).fetchall()
        finally:
            self._db.execute("COMMIT")
        records = (self._live(row) for row in live), (self._ended(row) for row in ended)
        return list(merge(*records, key=lambda record: record.live.seq))

    def _live(self, row: tuple[Any, ...]) -> TaskRecord:
        name, key, traceparent = row[LIVE_COLUMNS:]
        live = encoding.live_row(row, self._queues)
        return TaskRecord(live, name, key, traceparent, None, None, None, None, None, ())

    def _ended(self, row: tuple[Any, ...]) -> TaskRecord:
        ended = encoding.ended_row(row, self._queues)
        name, key, traceparent, reason, error_type, error_message, result = row[ENDED_COLUMNS:]
        return TaskRecord(ended.live, name, key, traceparent, ended, reason, error_type, error_message, result, ())
