"""Terminal tasks and ledger rows go when their time is over."""

from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core import openings
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
    for key in state.loaded.ledger_purge:
        if key not in state.out.ledger:
            state.out.ledger_purged.append(key)
            state.loaded.ledger.pop(key, None)
    state.out.runs_purged += [key for key in state.loaded.run_purge if key not in state.runs]
    loaded = state.loaded
    more = max(len(loaded.purge), len(loaded.ledger_purge), len(loaded.run_purge)) >= command.limit
    state.loaded.purge = []
    state.loaded.ledger_purge = []
    state.loaded.run_purge = []
    openings.sweep(state)
    return Swept(removed, more)
