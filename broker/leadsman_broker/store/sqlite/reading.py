"""Everything that is read from the file while the broker runs, and the one long read at its start."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.making import make
from leadsman_broker.core.rows import (
    CordonRow,
    FenceRow,
    HistoryRow,
    KeyRow,
    LiveRow,
    Loaded,
    NamespaceRow,
    Needs,
    PauseRow,
    PurgedRow,
    RedriveRow,
    Stored,
    TotalsRow,
)
from leadsman_broker.core.usage import Usage
from leadsman_broker.store.interface import Delivery, TaskRecord, once_object
from leadsman_broker.store.sqlite import encoding
from leadsman_broker.store.sqlite.encoding import ENDED_COLUMNS, LIVE_COLUMNS, Queues
from leadsman_broker.store.sqlite.statements import SQL


class Reader:
    """Reads of one connection; `queues` is the writer's map and grows while it commits."""

    def __init__(self, db: apsw.Connection, queues: Queues) -> None:
        self._db = db
        self._queues = queues

    def load(self) -> Stored:
        """Return everything a core starts from; the live rows come lazily, in one pass."""
        queues = self._queues
        meta = self._one("read_meta", 1)
        next_seq, last_at, restored_below, restoring = meta if meta is not None else (1, 0.0, 0, 0)
        return Stored(
            tasks=self._live_rows(),
            next_seq=next_seq,
            last_at=last_at,
            restored_below=restored_below,
            restoring=bool(restoring),
            dead={queues[queue]: count for queue, count in self._db.execute(SQL["count_dead"])},
            namespaces=[
                NamespaceRow(namespace, generation, encoding.rules_from(listed), encoding.rules_from(retained))
                for namespace, generation, listed, retained in self._db.execute(SQL["load_namespaces"])
            ],
            fences=[FenceRow(*row) for row in self._db.execute(SQL["load_fences"])],
            cordons=[
                CordonRow(pod_uid, operation, expires_at, bool(drain))
                for pod_uid, operation, expires_at, drain in self._db.execute(SQL["load_cordons"])
            ],
            pauses=[PauseRow(*row) for row in self._db.execute(SQL["load_pauses"])],
            totals={queues[row[0]]: TotalsRow(*row[1:]) for row in self._db.execute(SQL["load_totals"])},
            service_times={
                queues[queue]: encoding.seconds_from(blob)
                for queue, blob in self._db.execute(SQL["load_service_times"])
            },
            runs=[encoding.run_row(row) for row in self._db.execute(SQL["load_runs"])],
            openings=[encoding.opening_row(row) for row in self._db.execute(SQL["load_openings"])],
            budgets=[encoding.budget_row(row) for row in self._db.execute(SQL["load_budgets"])],
            running=[encoding.attempt_row(row, queues) for row in self._db.execute(SQL["read_running"])],
        )

    def read(self, needs: Needs) -> Loaded:
        """Return the rows that commands need."""
        loaded = Loaded()
        if needs.keys:
            by_hash = {encoding.hash_key(key): key for key in needs.keys}
            wanted = json.dumps([hashed.hex() for hashed in by_hash])
            for hashed, fingerprint, live_id, ended_id, state, ended_at in self._many("read_keys", wanted):
                if live_id is not None or ended_id is not None:
                    known = encoding.state_of(state) if state is not None else None
                    loaded.keys[by_hash[hashed]] = KeyRow(live_id or ended_id, fingerprint, known, ended_at)
        if needs.ended:
            for row in self._many("read_ended", _seqs(needs.ended)):
                if row[1] in needs.ended:
                    loaded.ended[row[1]] = encoding.ended_row(row, self._queues, row[ENDED_COLUMNS])
        if needs.once:
            loaded.once = self._once(needs.once)
        if needs.attempts:
            wanted = json.dumps(sorted({seq for seq, _ in needs.attempts}))
            for row in self._many("read_attempts", wanted):
                if (row[0], row[1]) in needs.attempts:
                    loaded.ledger[row[0], row[1]] = encoding.attempt_row(row, self._queues)
        if needs.redriven:
            by_seq = {seq_of(task_id): task_id for task_id in needs.redriven}
            rows = self._many("read_redriven", _seqs(needs.redriven))
            loaded.redriven = {by_seq[seq]: RedriveRow(operation, at) for seq, operation, at in rows}
        if needs.purge_limit:
            due = self._db.execute(SQL["read_purge"], (needs.purge_before, needs.purge_limit))
            loaded.purge = [
                PurgedRow(seq, task_id, *self._queues[queue], encoding.state_of(state))
                for seq, task_id, queue, state in due
            ]
            bounds = (needs.purge_before, needs.purge_limit)
            old: Any = self._db.execute(SQL["read_ledger_purge"], bounds)
            loaded.ledger_purge = [*old]
            past: Any = self._db.execute(SQL["read_run_purge"], bounds)
            loaded.run_purge = [*past]
        wanted_runs = needs.runs | {
            (row.live.namespace, row.live.run_id) for row in loaded.ended.values() if row.live.run_id
        }
        for key in wanted_runs:
            found = self._db.execute(SQL["read_run"], key).fetchone()
            if found is not None:
                loaded.runs[key] = encoding.run_row(found)
        return loaded

    def deliveries(self, task_ids: list[str]) -> dict[str, Delivery]:
        """Return payload and more of live tasks, by id."""
        wanted = set(task_ids)
        rows = [row for row in self._many("read_deliveries", _seqs(wanted)) if row[0] in wanted]
        once = self._once(row[0] for row in rows if row[5])
        return {
            task_id: Delivery(name, payload, checkpoint, traceparent, _object(once.get(task_id)))
            for task_id, name, payload, checkpoint, traceparent, _ in rows
        }

    def first_deliveries(self, task_ids: list[str]) -> dict[str, Delivery]:
        """Return payload and more of live tasks that were never leased: such have neither checkpoint nor `once`."""
        wanted = set(task_ids)
        return {
            task_id: make(Delivery, (name, payload, None, traceparent, None))
            for task_id, name, payload, traceparent in self._many("read_first_deliveries", _seqs(wanted))
            if task_id in wanted
        }

    def task(self, namespace: str, task_id: str, now: float) -> TaskRecord | None:
        """Return one task, live or visible still."""
        seq = seq_of(task_id) or 0
        row = self._one("read_live_task", seq)
        if row is not None:
            live = encoding.live_row(row, self._queues)
            name, key, traceparent = row[LIVE_COLUMNS:]
            record = TaskRecord(live, name, key, traceparent, None, None, None, None, None, self._history(seq))
        else:
            row = self._one("read_ended_task", seq)
            if row is None:
                return None
            record = self._ended_record(row)
            if record.ended is not None and record.ended.visible_until <= now:
                return None
        if (record.live.id, record.live.namespace) != (task_id, namespace):
            return None
        tokens, cost_micros = self._one("read_usage", seq) or (None, None)
        return record if tokens is None else record._replace(usage=Usage(tokens, cost_micros))

    def payload(self, namespace: str, task_id: str) -> bytes | None:
        """Return the payload of a live or dead task."""
        seq = seq_of(task_id) or 0
        row = self._one("read_live_task", seq) or self._one("read_ended_task", seq)
        if row is None or row[1] != task_id or self._queues[row[2]][0] != namespace:
            return None
        found = self._one("read_payload", seq)
        return found[0] if found is not None else None

    def _live_rows(self) -> Iterator[LiveRow]:
        for row in self._db.execute(SQL["load_live"]):
            yield encoding.live_row(row, self._queues)

    def _once(self, task_ids: Iterable[str]) -> dict[str, dict[str, bytes]]:
        """Return `once` values by task and key, of tasks that have any."""
        by_seq = {seq_of(task_id): task_id for task_id in task_ids}
        found: dict[str, dict[str, bytes]] = {}
        for seq, key, value in self._many("read_once", _seqs(by_seq.values())) if by_seq else ():
            found.setdefault(by_seq[seq], {})[key] = value
        return found

    def _many(self, name: str, wanted: str) -> list[tuple[Any, ...]]:
        """Read rows by a JSON list of what is wanted: one statement for all, several times faster than one each."""
        rows: list[tuple[Any, ...]] = self._db.execute(SQL[name], (wanted,)).fetchall()
        return rows

    def _one(self, name: str, value: int) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._db.execute(SQL[name], (value,)).fetchone()
        return row

    def _ended_record(self, row: tuple[Any, ...]) -> TaskRecord:
        ended = encoding.ended_row(row, self._queues)
        name, key, traceparent, reason, error_type, error_message, result = row[ENDED_COLUMNS:]
        history = self._history(ended.live.seq)
        return TaskRecord(
            ended.live, name, key, traceparent, ended, reason, error_type, error_message, result, history
        )

    def _history(self, seq: int) -> tuple[HistoryRow, ...]:
        return tuple(HistoryRow(*row) for row in self._db.execute(SQL["read_history"], (seq,)))


def _object(values: dict[str, bytes] | None) -> bytes | None:
    return once_object(values) if values else None


def _seqs(task_ids: Iterable[str]) -> str:
    """Return the seqs in task ids as a JSON list; what cannot be an id of ours is left out."""
    return json.dumps([seq for task_id in task_ids if (seq := seq_of(task_id)) is not None])
