"""Where a live task goes: into its queue, back into it, or out of the live world."""

from heapq import heappush
from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core import budgets, runs
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.holding import let_go
from leadsman_broker.core.making import make
from leadsman_broker.core.rows import EndedRow, Ending, FollowUp
from leadsman_broker.core.tasks import LEASED, TaskRow, live_row_of

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State


def admit(state: "State", row: TaskRow) -> None:
    """Put a new task into its queue."""
    queue = row.queue
    state.tasks[row.seq] = row
    if queue.sheddable is not None:
        queue.sheddable.add(row, state.tasks)
    if row.run_id:
        runs.joined(state, row)
    watch_expiry(state, row)
    if row.due_at > state.now:
        queue.add_delayed(row)
        watch_delayed(state, queue)
        state.queue_changed(queue)
    else:
        queue.add_fresh(row)
        became_ready(state, queue)


def requeue(state: "State", row: TaskRow, *, delay: float = 0.0) -> None:
    """Put a leased task back; its seq gives it its old place. A ttl that ran out meanwhile ends it."""
    if row.expires_at is not None and row.expires_at <= state.now:
        finish(state, row, TaskState.EXPIRED, reason=EndReason.EXPIRED)
        return
    let_go(state, row)
    row.due_at = state.now + delay
    put_back(state, row, backing_off=True)
    state.out.touched[row.seq] = row


def put_back(state: "State", row: TaskRow, *, backing_off: bool) -> None:
    """Put a task into its queue by its due time, behind nothing but what its seq says."""
    queue = row.queue
    if row.due_at > state.now:
        row.backing_off = backing_off
        queue.add_delayed(row)
        watch_delayed(state, queue)
        state.queue_changed(queue)
    else:
        row.backing_off = False
        queue.add_returned(row)
        if row.suspect:
            state.alarms.sooner(("suspects", queue.key), state.now + state.settings.suspect_patience_seconds)
        became_ready(state, queue)


def became_ready(state: "State", queue: "Queue") -> None:
    """Look for a worker in the next dispatch; the first ready task of a queue is an edge."""
    state.hot[queue.key] = None
    state.queue_changed(queue, urgent=queue.ready == 1)


def watch_delayed(state: "State", queue: "Queue") -> None:
    """Set the alarms of a queue for its next due task and for the next to come within the start-up time."""
    state.alarms.set(("due", queue.key), queue.next_due(state.tasks))
    state.alarms.set(("soon", queue.key), queue.next_soon(state.tasks))


def watch_expiry(state: "State", row: TaskRow) -> None:
    """Set the end of a task's ttl; it stays set while the task is leased and counts again when it comes back."""
    if row.expires_at is not None:
        heappush(state.expiries, (row.expires_at, row.seq))


def finish(
    state: "State",
    row: TaskRow,
    outcome: TaskState,
    *,
    reason: EndReason | None = None,
    error: tuple[str, str] | None = None,
    result: bytes | None = None,
    late: bool = False,
    follow_ups: tuple[FollowUp, ...] | None = None,
) -> None:
    """End a live task, wherever it stands. The row that is kept still names the worker that held it."""
    queue = row.queue
    totals = queue.totals
    if outcome is TaskState.COMPLETED:
        totals.completed += 1
        totals.late_acks += late
    elif outcome is TaskState.DEAD:
        totals.dead += 1
        queue.dead += 1
    elif outcome is TaskState.EXPIRED:
        totals.expired += 1
    elif outcome is TaskState.SHED:
        totals.shed += 1
    else:
        totals.cancelled += 1
    if outcome is not TaskState.SHED:  # making room is no sign that the queue gets shorter
        queue.drain.add(state.now)
    state.queue_changed(queue)
    state.out.totals.add(queue)

    dead = outcome is TaskState.DEAD
    if reason is not None:
        queue.endings[reason.value] += 1
        state.out.record(row, state.now, outcome.value, None, reason.value)
    rules = queue.rules
    visible_until = state.now + (rules.dead_retention_seconds if dead else rules.completed_retention_seconds)
    purge_at = max(visible_until, state.now + state.settings.key_retention_seconds) if row.keyed else visible_until
    ended = make(EndedRow, (live_row_of(row), outcome, state.now, visible_until, purge_at, late, follow_ups))
    state.loaded.ended[row.id] = ended  # a later command of the same step finds it as if it had been read
    error_type, error_message = error if error is not None else (None, None)
    state.out.end(row, make(Ending, (ended, reason, error_type, error_message, result)))
    del state.tasks[row.seq]
    if row.run_id:
        runs.left(state, row, outcome)
    if row.state is LEASED:
        let_go(state, row)
    else:
        queue.remove(row)
        state.queue_changed(queue, urgent=queue.ready == 0)
        if row.estimate is not None and queue.budget is not None:
            budgets.lift(state, queue, row.tenant)  # the others may have waited behind its own estimate
    if not queue.configured and not queue.holds_tasks:
        forget_queue(state, queue)


def forget_queue(state: "State", queue: "Queue") -> None:
    """Drop a queue that is no longer listed and holds nothing."""
    state.queues.pop(queue.key, None)
    state.hot.pop(queue.key, None)
    state.out.totals.discard(queue)
    state.out.forgotten.append(queue.key)
    if queue.budget is not None:
        budgets.forget(state, queue)
    for kind in ("due", "soon", "suspects", "service", "pace", "budget"):
        state.alarms.set((kind, queue.key), None)
    state.queue_changed(queue, urgent=True)
