"""Which task of a queue goes next: a short sequence of stages, each of which narrows the choice.

The band, by priority or by the turn of the lowest; in it the lowest seq. A worker that holds nothing is offered the
suspects as well, in the same order.
"""

from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.placement import finish
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.workers import WorkerRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def can_serve(queue: Queue, worker: WorkerRow) -> bool:
    """Say whether the queue has a ready task that this worker may have."""
    if queue.paused:
        return False
    return bool(queue.open.total or (queue.suspects.total and not worker.leases))


def pick(state: "State", queue: Queue, worker: WorkerRow) -> TaskRow | None:
    """Take the next task for this worker out of the queue; None when there is none for it.

    A task whose ttl has run out ends here instead of being leased.
    """
    while (row := _next_of(state, queue, worker)) is not None:
        if row.expires_at is not None and row.expires_at <= state.now:
            finish(state, row, TaskState.EXPIRED, reason=EndReason.EXPIRED)
            continue
        queue.take(row)
        queue.picks += 1
        return row
    return None


def _next_of(state: "State", queue: Queue, worker: WorkerRow) -> TaskRow | None:
    row = queue.open.head(state.tasks, lowest=_is_turn_of_lowest(queue))
    if queue.suspects.total and not worker.leases:
        suspect = queue.suspects.head(state.tasks)
        if row is None or (suspect is not None and _order(suspect) < _order(row)):
            return suspect
    return row


def _is_turn_of_lowest(queue: Queue) -> bool:
    """Say whether this pick takes the oldest task of the lowest band, so that no priority starves."""
    every = queue.rules.lowest_band_every
    return bool(every) and (queue.picks + 1) % every == 0


def _order(row: TaskRow) -> tuple[int, int]:
    return -row.priority, row.seq
