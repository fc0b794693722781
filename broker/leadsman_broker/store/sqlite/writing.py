"""One step of the core as statements, inside a transaction that the store has begun."""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from leadsman.wire.tasks import TaskState
from leadsman_broker.core.rows import HISTORY_LIMIT, AcceptedRow, Changes, Ending, LiveRow, QueueKey
from leadsman_broker.store.sqlite import encoding
from leadsman_broker.store.sqlite.encoding import Queues
from leadsman_broker.store.sqlite.statements import SQL, in_portions

_NO_ESTIMATE = (None, None)

_DONE = ("drop_payload", "drop_checkpoint", "drop_once")
"""What goes with the end of a task, unless it is dead and may be redriven."""

_PURGED = (
    "drop_key",
    "drop_ended",
    "drop_payload",
    "drop_checkpoint",
    "drop_once",
    "drop_redriven",
    "drop_history",
)
"""What goes with a task, in this order: its key is found by way of its row."""


class QueueIds:
    """Small numbers for queues, so that a task's row does not repeat their names."""

    def __init__(self, db: apsw.Connection) -> None:
        self.by_id: Queues = {row[0]: (row[1], row[2]) for row in db.execute(SQL["read_queues"])}
        self.by_key = {key: number for number, key in self.by_id.items()}

    def of(self, db: apsw.Connection, key: QueueKey) -> int:
        """Return a queue's number, a new one in the current transaction if it has none.

        A number is never given to another queue, and a failed commit ends the store: so the two maps may run ahead.
        """
        number = self.by_key.get(key)
        if number is None:
            number = max(self.by_id, default=0) + 1
            db.execute(SQL["add_queue"], (number, *key))
            self.by_id[number] = key
            self.by_key[key] = number
        return number


def write(db: apsw.Connection, changes: Changes, ids: QueueIds) -> None:
    """Write every field of the changes, in their order."""
    if changes.accepted:
        _accept(db, changes.accepted, ids)
    if changes.revived:
        _many(db, "revive", [(*row.standing, row.seq) for row in changes.revived])
        _drop(db, ("drop_ended",), [row.seq for row in changes.revived])
    if changes.updated:
        _many(db, "update", [(*row.standing, row.seq) for row in changes.updated])
    if changes.checkpoints:
        _many(db, "save_checkpoint", [*changes.checkpoints.items()])
    if changes.once:
        _many(db, "add_once", changes.once)
    if changes.redriven:
        _many(db, "put_redriven", [(seq, *row) for seq, row in changes.redriven.items()])
    if changes.history:
        _many(db, "add_history", changes.history)
        old = [(row.seq, row.number - HISTORY_LIMIT) for row in changes.history if row.number > HISTORY_LIMIT]
        if old:
            db.executemany(SQL["trim_history"], old)
    if changes.ended:
        _end(db, changes.ended)
    if changes.purged:
        _drop(db, _PURGED, [row.seq for row in changes.purged])
    if changes.ledger or changes.ledger_purged:
        _ledger(db, changes, ids)
    for key, starts_at in changes.budgets_turned.items():
        db.execute(SQL["turn_budgets"], (*key, starts_at))
    if changes.budgets:
        _many(db, "put_budget", [encoding.budget_values(row) for row in changes.budgets])
    if changes.runs:
        _many(db, "put_run", [encoding.run_values(row) for row in changes.runs.values()])
    if changes.runs_purged:
        _many(db, "drop_run", changes.runs_purged)
    _settings(db, changes, ids)


def _accept(db: apsw.Connection, accepted: list[AcceptedRow], ids: QueueIds) -> None:
    rows = []
    keys = []
    for row in accepted:
        live = row.live
        queue = ids.by_key.get((live.namespace, live.capability)) or ids.of(db, (live.namespace, live.capability))
        hashed = None
        if row.key is not None:
            hashed = encoding.hash_key((live.namespace, live.capability, live.tenant, row.key))
            keys.append((hashed, live.seq, row.fingerprint))
        rows.append((*_fixed(live, queue), row.name, row.key, hashed, row.traceparent, *live.standing))
    _many(db, "accept", rows)
    _many(db, "accept_payload", [(row.live.seq, row.payload) for row in accepted])
    if keys:
        _many(db, "accept_key", keys)


def _fixed(live: LiveRow, queue: int) -> tuple[Any, ...]:
    return (
        live.seq,
        live.id,
        queue,
        live.tenant,
        live.task_class,
        live.priority,
        live.accepted_at,
        live.max_attempts,
        live.run_id,
        *(live.estimate or _NO_ESTIMATE),
    )


def _end(db: apsw.Connection, ended: list[Ending]) -> None:
    _many(db, "end", [encoding.ending_values(row) for row in ended])
    _drop(db, ("drop_live",), [row.ended.live.seq for row in ended])
    _drop(db, _DONE, [row.ended.live.seq for row in ended if row.ended.state is not TaskState.DEAD])


def _ledger(db: apsw.Connection, changes: Changes, ids: QueueIds) -> None:
    rows = list(changes.ledger.values())
    _many(
        db,
        "put_attempt",
        [encoding.attempt_values(row, ids.of(db, (row.namespace, row.capability))) for row in rows],
    )
    _many(db, "drop_attempt", changes.ledger_purged)


def _settings(db: apsw.Connection, changes: Changes, ids: QueueIds) -> None:
    for row in changes.namespaces.values():
        values = (row.namespace, row.generation, encoding.rules_text(row.capabilities))
        db.execute(SQL["put_namespace"], (*values, encoding.rules_text(row.retained)))
    for pod_uid, fence in changes.fences.items():
        if fence is None:
            db.execute(SQL["drop_fence"], (pod_uid,))
        else:
            db.execute(SQL["put_fence"], tuple(fence))
    for pod_uid, cordon in changes.cordons.items():
        if cordon is None:
            db.execute(SQL["drop_cordon"], (pod_uid,))
        else:
            db.execute(SQL["put_cordon"], tuple(cordon))
    for queue, pause in changes.pauses.items():
        if pause is None:
            db.execute(SQL["drop_pause"], queue)
        else:
            db.execute(SQL["put_pause"], tuple(pause))
    for key, totals in changes.totals.items():
        db.execute(SQL["put_totals"], (ids.of(db, key), *totals))
    for key, seconds in changes.service_times.items():
        db.execute(SQL["put_service_times"], (ids.of(db, key), encoding.seconds_blob(seconds)))
    if changes.openings_before:
        db.execute(SQL["drop_old_openings"], (changes.openings_before,))
    if changes.openings:
        _many(db, "put_opening", [encoding.opening_values(row) for row in changes.openings])
    if changes.restored:
        db.execute(SQL["restored"])
    for key in changes.forgotten:
        number = ids.by_key.get(key)
        db.execute(SQL["drop_openings"], key)
        if number is not None:
            db.execute(SQL["drop_totals"], (number,))
            db.execute(SQL["drop_service_times"], (number,))


def _drop(db: apsw.Connection, names: Sequence[str], seqs: list[int]) -> None:
    """Remove the rows of these tasks, all of a table in one statement."""
    wanted = json.dumps(seqs)
    for name in names if seqs else ():
        db.execute(SQL[name], (wanted,))


def _many(db: apsw.Connection, name: str, rows: Sequence[Sequence[Any]]) -> None:
    for sql, values in in_portions(name, rows):
        db.execute(sql, values)
