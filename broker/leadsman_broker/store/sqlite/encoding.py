"""Rows of the core as SQLite values, and back."""

import hashlib
import json
import struct
from typing import Any

from pydantic import TypeAdapter

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core.openings import OpeningRow
from leadsman_broker.core.rows import (
    AttemptOutcome,
    BudgetRow,
    Caps,
    EndedRow,
    Ending,
    FollowUp,
    KeyId,
    LedgerRow,
    LiveRow,
    QueueKey,
    RunRow,
    Standing,
)
from leadsman_broker.core.usage import Estimate, Usage

Queues = dict[int, QueueKey]

_CLASSES = {member.value: member for member in TaskClass}
_STATES = {member.value: member for member in TaskState}
_RULES = TypeAdapter(tuple[CapabilityConfig, ...])

_FIXED = 12
"""Columns of a stored row before its standing."""
LIVE_COLUMNS = _FIXED + len(Standing._fields)
ENDED_COLUMNS = LIVE_COLUMNS + 5
_EPOCH = _FIXED + Standing._fields.index("epoch")
_HISTORY = _FIXED + Standing._fields.index("history")
_UNTOUCHED = (0, "", 0, 0, 0, 0, False, False, 0, 0, "", None, None, None, None, None, None, None)
"""The standing, from the epoch on, of a task to which nothing has happened yet."""


def hash_key(key: KeyId) -> bytes:
    """Return what a key is found by: 128 bits, so that two keys do not meet by accident."""
    return hashlib.blake2b(json.dumps(key).encode("ascii"), digest_size=16).digest()


def live_row(row: tuple[Any, ...], queues: Queues) -> LiveRow:
    """Read a live row; also the first columns of an ended one."""
    namespace, capability = queues[row[2]]
    if row[_EPOCH] or row[_HISTORY]:
        standing = Standing._make(row[_FIXED:LIVE_COLUMNS])
        settled = standing.settled_state
        standing = standing._replace(
            backing_off=bool(standing.backing_off),
            suspect=bool(standing.suspect),
            cancel=bool(standing.cancel),
            settled_state=_STATES[settled] if settled is not None else None,
        )
    else:  # most rows of a long queue
        standing = Standing(row[_FIXED], False, row[_FIXED + 2], *_UNTOUCHED)
    return LiveRow(
        row[0],
        row[1],
        namespace,
        capability,
        row[3],
        _CLASSES[row[4]],
        row[5],
        bool(row[6]),
        row[7],
        row[8],
        row[9],
        None if row[10] is None and row[11] is None else Estimate(row[10], row[11]),
        standing,
    )


def ended_row(row: tuple[Any, ...], queues: Queues, follow_ups: str | None = None) -> EndedRow:
    """Read an ended row."""
    state, ended_at, visible_until, purge_at, late = row[LIVE_COLUMNS:ENDED_COLUMNS]
    handed_in = None if follow_ups is None else tuple(_follow_up(*one) for one in json.loads(follow_ups))
    return EndedRow(live_row(row, queues), _STATES[state], ended_at, visible_until, purge_at, bool(late), handed_in)


def _follow_up(task_id: str | None, state: str | None, *rest: Any) -> FollowUp:
    return FollowUp(task_id, None if state is None else _STATES[state], *rest)


def ending_values(ending: Ending) -> tuple[Any, ...]:
    """Return the parameters that turn a live row into an ended one."""
    ended = ending.ended
    return (
        *ended.live.standing,
        ended.state,
        ended.ended_at,
        ended.visible_until,
        ended.purge_at,
        ended.late,
        ending.reason,
        ending.error_type,
        ending.error_message,
        ending.result,
        None if ended.follow_ups is None else json.dumps(ended.follow_ups),
        ended.live.seq,
    )


def attempt_values(row: LedgerRow, queue: int) -> tuple[Any, ...]:
    """Return the columns of a ledger row."""
    return (
        row.seq,
        row.epoch,
        row.task_id,
        queue,
        row.tenant,
        row.run_id,
        row.leased_at,
        row.outcome,
        *row.usage,
        row.purge_at,
        row.reported,
        *(row.reserved or (None, None)),
    )


def attempt_row(row: tuple[Any, ...], queues: Queues) -> LedgerRow:
    """Read a ledger row."""
    seq, epoch, task_id, queue, tenant, run_id, leased_at, outcome, tokens, cost_micros, purge_at = row[:11]
    reported, reserved_tokens, reserved_cost = row[11:]
    return LedgerRow(
        seq,
        epoch,
        task_id,
        *queues[queue],
        tenant,
        run_id,
        leased_at,
        AttemptOutcome(outcome),
        Usage(tokens, cost_micros),
        purge_at,
        bool(reported),
        None if reserved_tokens is None else Usage(reserved_tokens, reserved_cost),
    )


def budget_values(row: BudgetRow) -> tuple[Any, ...]:
    """Return the columns of an account."""
    namespace, capability, tenant, starts_at, settled = row
    return (namespace, capability, tenant is not None, tenant or "", starts_at, *settled)


def budget_row(row: tuple[Any, ...]) -> BudgetRow:
    """Read an account."""
    namespace, capability, scope, tenant, starts_at, tokens, cost_micros = row
    return BudgetRow(namespace, capability, tenant if scope else None, starts_at, Usage(tokens, cost_micros))


def opening_values(row: OpeningRow) -> tuple[Any, ...]:
    """Return the columns of an opening."""
    namespace, capability, tenant, interactive, at = row
    return (namespace, capability, tenant is not None, tenant or "", interactive, at)


def opening_row(row: tuple[Any, ...]) -> OpeningRow:
    """Read an opening."""
    namespace, capability, scope, tenant, interactive, at = row
    return OpeningRow(namespace, capability, tenant if scope else None, bool(interactive), at)


def run_values(row: RunRow) -> tuple[Any, ...]:
    """Return the columns of a run."""
    return (*row[:6], *row.caps, *row[7:12], *row.usage, *row.lost_usage, row.purge_at)


def run_row(row: tuple[Any, ...]) -> RunRow:
    """Read a run."""
    return RunRow._make(
        (
            row[0],
            row[1],
            RunState(row[2]),
            *row[3:6],
            Caps(*row[6:10]),
            *row[10:15],
            Usage(*row[15:17]),
            Usage(*row[17:19]),
            row[19],
        )
    )


def state_of(text: str) -> TaskState:
    """Read a state."""
    return _STATES[text]


def rules_text(rules: tuple[CapabilityConfig, ...]) -> str:
    """Return capabilities' rules as JSON; what is at its default is left out, so that a new default takes hold."""
    return _RULES.dump_json(rules, exclude_defaults=True).decode()


def rules_from(text: str) -> tuple[CapabilityConfig, ...]:
    """Read capabilities' rules."""
    return _RULES.validate_json(text)


def seconds_blob(seconds: tuple[float, ...]) -> bytes:
    """Return service times as little-endian doubles."""
    return struct.pack(f"<{len(seconds)}d", *seconds)


def seconds_from(blob: bytes) -> tuple[float, ...]:
    """Read service times."""
    return struct.unpack(f"<{len(blob) // 8}d", blob)
