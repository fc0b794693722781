"""What attempts used, booked by delivery: nothing spent is lost, and nothing is counted on another attempt.

A report carries the totals of its attempt so far, and only a larger one counts, so repeating it changes nothing.
An attempt that lost its lease may still report: that is booked on its own delivery, as work done in vain, whoever
has the task by then. Runs and budgets follow every change of a row.
"""

from typing import TYPE_CHECKING

from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import budgets, runs
from leadsman_broker.core.ids import Token
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

_LATE_SECONDS = 900.0
"""The row of an attempt is kept for so long after its end, whatever the retention: else a report that comes late or
again, which carries totals, would be booked a second time."""


def reserve(state: "State", row: TaskRow, lease: Lease) -> None:
    """Set aside what a new attempt may use, where its queue has a budget."""
    budget = row.queue.budget
    if budget is not None:
        lease.reserved = budgets.estimate_of(budget, row.estimate)
        _book(state, None, _running(state, live_row_of(row), lease))


def report(state: "State", row: TaskRow, usage: Usage) -> None:
    """Book what the attempt of a leased task has used so far."""
    lease = row.lease
    if lease is None:
        return
    grown = lease.usage.raised_to(usage)
    if grown == lease.usage and (lease.reported or lease.reserved is None):
        return
    live = live_row_of(row)
    before = _running(state, live, lease)
    lease.usage = grown
    lease.reported = True
    _book(state, before, _running(state, live, lease))


def report_late(state: "State", namespace: str, token: Token, usage: Usage) -> None:
    """Book what an attempt used that no longer holds its task. A token that was never given books nothing."""
    live = _task_of(state, namespace, token)
    if live is None:
        return
    known = state.loaded.ledger.get((live.seq, token.epoch))
    if known is None:
        outcome = _outcome_of(live, token.epoch)
        known = _row(state, live, token.epoch, leased_at=state.now, outcome=outcome, usage=NOTHING)
    after = known.usage.raised_to(usage)
    if after != known.usage or (known.reserved is not None and not known.reported):
        _book(state, known, known._replace(usage=after, reported=True))


def close(state: "State", row: TaskRow, outcome: AttemptOutcome) -> None:
    """Say how the attempt of a leased task ended, while the lease is still there.

    One that used nothing leaves no trace, unless it was lost: then a late report finds its time here.
    """
    lease = row.lease
    if lease is not None and (lease.reported or lease.reserved is not None or outcome is LOST):
        before = _running(state, live_row_of(row), lease)
        purge_at = max(before.purge_at, state.now + _LATE_SECONDS)
        _book(state, before, before._replace(outcome=outcome, purge_at=purge_at))


def won_late(state: "State", row: TaskRow) -> None:
    """Turn a lost attempt into the one that completed its task: its ack came before anyone else had it."""
    known = state.loaded.ledger.get((row.seq, row.epoch))
    if known is not None:
        _book(state, known, known._replace(outcome=COMPLETED))


def orphaned(state: "State", attempt: LedgerRow) -> None:
    """Close the row of a running attempt whose lease did not come back at a start."""
    _book(state, attempt, attempt._replace(outcome=LOST))


def _task_of(state: "State", namespace: str, token: Token) -> LiveRow | None:
    """Return the task of a token that was given for it; secrets of deliveries before the newest are not kept."""
    row = state.tasks.get(token.seq)
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


def _running(state: "State", live: LiveRow, lease: Lease) -> LedgerRow:
    row = _row(state, live, live.standing.epoch, leased_at=lease.started_at, outcome=RUNNING, usage=lease.usage)
    return row._replace(reported=lease.reported, reserved=lease.reserved)


def _row(
    state: "State", live: LiveRow, epoch: int, *, leased_at: float, outcome: AttemptOutcome, usage: Usage
) -> LedgerRow:
    queue = state.queues.get((live.namespace, live.capability))
    kept = queue.rules.ledger_retention_seconds if queue is not None else _DEFAULT_RETENTION_SECONDS
    return LedgerRow(
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
        reported=False,
    )


def _book(state: "State", before: LedgerRow | None, after: LedgerRow) -> None:
    """Write a row, and let everyone follow who counts what attempts used."""
    key = (after.seq, after.epoch)
    state.loaded.ledger[key] = state.out.ledger[key] = after
    budgets.charge(state, before, after)
    used = after.usage.less(before.usage) if before is not None else after.usage
    lost = (after.usage if after.outcome is LOST else NOTHING).less(
        before.usage if before is not None and before.outcome is LOST else NOTHING
    )
    if used == NOTHING and lost == NOTHING:
        return
    if after.run_id:
        runs.used(state, (after.namespace, after.run_id), used, lost)
    queue = state.queues.get((after.namespace, after.capability))
    if queue is not None:
        totals = queue.totals
        totals.tokens += used.tokens
        totals.cost_micros += used.cost_micros
        totals.lost_tokens += max(0, lost.tokens)  # a counter: a late ack takes nothing back
        totals.lost_cost_micros += max(0, lost.cost_micros)
        state.out.totals.add(queue)
