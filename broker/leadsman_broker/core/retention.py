"""Terminal tasks go when their time is over."""

from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core.commands import Sweep
from leadsman_broker.core.placement import forget_queue
from leadsman_broker.core.results import Swept

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def sweep(state: "State", command: Sweep) -> Swept:
    """Remove the rows that were loaded as due; one that was redriven meanwhile stays."""
    removed = 0
    for row in state.loaded.purge:
        if row.seq in state.tasks:
            continue
        removed += 1
        state.out.purged.append(row)
        state.loaded.ended.pop(row.task_id, None)
        queue = state.queues.get((row.namespace, row.capability))
        if queue is None or row.state is not TaskState.DEAD:
            continue
        queue.dead -= 1
        state.queue_changed(queue)
        if not queue.configured and not queue.holds_tasks:
            forget_queue(state, queue)
    more = len(state.loaded.purge) >= command.limit
    state.loaded.purge = []
    return Swept(removed, more)
