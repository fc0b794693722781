"""What attempts used, booked by delivery: nothing spent is lost, and nothing is counted on another attempt.

A report carries the totals of its attempt so far, and only a larger one counts, so repeating it changes nothing.
An attempt that lost its lease may still report: that is booked on its own delivery, as work done in vain, whoever
has the task by then.
"""

from typing import TYPE_CHECKING

from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import runs
from leadsman_broker.core.ids import Token, seq_of
from leadsman_broker.core.rows import AttemptOutcome, LedgerRow, LiveRow
from leadsman_broker.core.tasks import Lease, TaskRow, live_row_of
from leadsman_broker.core.usage import NOTHING, Usage

if TYPE_CHECKING:
    from leadsman_broker.core.state import State

RUNNING = AttemptOutcome.RUNNING
COMPLETED = AttemptOutcome.COMPLETED
FAILED = AttemptOutcome.FAILED
RELEASED = AttemptOutcome.RELEASED
LOST = AttemptOutcome.LOST

_OUTCOMES = {"ack": COMPLETED, "nack": FAILED, "release": RELEASED}
_DEFAULT_RETENTION_SECONDS = CapabilityConfig(name="default").ledger_retention_seconds


def report(state: "State", namespace: str, token: Token, holder: TaskRow | None, usage: Usage) -> None:
    """Book what an attempt has used so far; `holder` is the task if this token holds it."""
    if holder is not None and holder.lease is not None:
        _report_running(state, holder, holder.lease, usage)
    else:
        _report_late(state, namespace, token, usage)


def close(state: "State", row: TaskRow, outcome: AttemptOutcome) -> None:
    """Say how the attempt of a leased task ended, while the lease is still there.

    One that used nothing leaves no trace, unless it was lost: then a late report finds its time here.
    """
    lease = row.lease
    if lease is None or (lease.usage == NOTHING and outcome is not LOST):
        return
    live = live_row_of(row)
    if outcome is LOST:
        _count_lost(state, live, lease.usage)
    _write(state, live, row.epoch, leased_at=lease.started_at, outcome=outcome, usage=lease.usage)


def won_late(state: "State", row: TaskRow) -> None:
    """Turn a lost attempt into the one that completed its task: its ack came before anyone else had it."""
    known = state.loaded.ledger.get((row.seq, row.epoch))
    if known is not None:
        if row.run_id:
            runs.used(state, (row.queue.key[0], row.run_id), NOTHING, NOTHING.less(known.usage))
        _write(state, live_row_of(row), row.epoch, leased_at=known.leased_at, outcome=COMPLETED, usage=known.usage)


def _report_running(state: "State", row: TaskRow, lease: Lease, usage: Usage) -> None:
    grown = lease.usage.raised_to(usage)
    if grown != lease.usage:
        live = live_row_of(row)
        _count(state, live, grown.less(lease.usage), lost=False)
        lease.usage = grown
        _write(
            state,
            live,
            row.epoch,
            leased_at=lease.started_at,
            outcome=AttemptOutcome.RUNNING,
            usage=grown,
        )


def _report_late(state: "State", namespace: str, token: Token, usage: Usage) -> None:
    """Book what an attempt used that no longer holds its task. A token that was never given books nothing."""
    live = _task_of(state, namespace, token)
    if live is None:
        return
    known = state.loaded.ledger.get((live.seq, token.epoch))
    before = known.usage if known is not None else NOTHING
    after = before.raised_to(usage)
    if after == before:
        return
    outcome = known.outcome if known is not None else _outcome_of(live, token.epoch)
    grown = after.less(before)
    _count(state, live, grown, lost=outcome is LOST)
    leased_at = known.leased_at if known is not None else state.now
    _write(state, live, token.epoch, leased_at=leased_at, outcome=outcome, usage=after)


def _task_of(state: "State", namespace: str, token: Token) -> LiveRow | None:
    """Return the task of a token that was given for it; secrets of deliveries before the newest are not kept."""
    row = state.tasks.get(seq_of(token.task_id) or 0)
    if row is not None and row.id == token.task_id:
        live = live_row_of(row)
    else:
        ended = state.loaded.ended.get(token.task_id)
        if ended is None:
            return None
        live = ended.live
    standing = live.standing
    newest = token.epoch == standing.epoch
    given = 1 <= token.epoch <= standing.epoch and (not newest or token.secret == standing.secret)
    return live if given and live.namespace == namespace else None


def _outcome_of(live: LiveRow, epoch: int) -> AttemptOutcome:
    """Return how an attempt ended that left no trace in the ledger."""
    standing = live.standing
    return _OUTCOMES.get(standing.settled_op, LOST) if standing.settled_epoch == epoch else LOST


def _write(
    state: "State", live: LiveRow, epoch: int, *, leased_at: float, outcome: AttemptOutcome, usage: Usage
) -> None:
    queue = state.queues.get((live.namespace, live.capability))
    kept = queue.rules.ledger_retention_seconds if queue is not None else _DEFAULT_RETENTION_SECONDS
    key = (live.seq, epoch)
    state.loaded.ledger[key] = state.out.ledger[key] = LedgerRow(
        live.seq,
        epoch,
        live.id,
        live.namespace,
        live.capability,
        live.tenant,
        live.run_id,
        leased_at,
        outcome,
        usage,
        leased_at + kept,
    )


def _count(state: "State", live: LiveRow, usage: Usage, *, lost: bool) -> None:
    if live.run_id:
        runs.used(state, (live.namespace, live.run_id), usage, NOTHING)
    queue = state.queues.get((live.namespace, live.capability))
    if queue is not None:
        queue.totals.tokens += usage.tokens
        queue.totals.cost_micros += usage.cost_micros
        state.out.totals.add(queue)
    if lost:
        _count_lost(state, live, usage)


def _count_lost(state: "State", live: LiveRow, usage: Usage) -> None:
    if live.run_id:
        runs.used(state, (live.namespace, live.run_id), NOTHING, usage)
    queue = state.queues.get((live.namespace, live.capability))
    if queue is not None and usage != NOTHING:
        queue.totals.lost_tokens += usage.tokens
        queue.totals.lost_cost_micros += usage.cost_micros
        state.out.totals.add(queue)
