"""Which task of a queue goes next: a short sequence of stages, each of which narrows the choice.

Suspects before all for a worker that holds nothing, if their turn has come; then the band; in it the lowest seq.
"""

from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.placement import finish
from leadsman_broker.core.queues import PRIORITIES, Queue
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.workers import WorkerRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def can_serve(queue: Queue, worker: WorkerRow) -> bool:
    """Say whether the queue has a ready task that this worker may have."""
    return queue.ready > len(queue.suspects) or (queue.ready > 0 and not worker.leases)


def pick(state: "State", queue: Queue, worker: WorkerRow) -> TaskRow | None:
    """Take the next task for this worker out of the queue; None when there is none for it.

    A task whose ttl has run out ends here instead of being leased.
    """
    while can_serve(queue, worker):
        row = _next_of(state, queue, worker)
        if row is None:
            return None
        if row.expires_at is not None and row.expires_at <= state.now:
            finish(state, row, TaskState.EXPIRED, reason=EndReason.EXPIRED)
            continue
        if row.suspect:
            queue.take_suspect(row)
        else:
            queue.take(row.priority, state.tasks)
        queue.picks += 1
        return row
    return None


def _next_of(state: "State", queue: Queue, worker: WorkerRow) -> TaskRow | None:
    priority = _band(queue)
    band = queue.bands[priority] if priority is not None else None
    row = band.head(state.tasks) if band is not None else None
    if queue.suspects and not worker.leases:
        suspects = [state.tasks[seq] for seq in queue.suspects]
        suspect = min(suspects, key=lambda task: (-task.priority, task.seq))
        if row is None or (-suspect.priority, suspect.seq) < (-row.priority, row.seq):
            return suspect
    return row


def _band(queue: Queue) -> int | None:
    """Return the priority whose turn it is: the highest, and every so many picks the lowest: none starves."""
    counts = queue.ready_by_priority
    every = queue.rules.lowest_band_every
    from_lowest = every and (queue.picks + 1) % every == 0
    for priority in range(PRIORITIES) if from_lowest else range(PRIORITIES - 1, -1, -1):
        if counts[priority]:
            return priority
    return None
