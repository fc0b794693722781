"""Cancelling a task by its producer's word."""

from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.commands import Cancel
from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.placement import finish
from leadsman_broker.core.results import Cancelled

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def cancel(state: "State", command: Cancel) -> Cancelled:
    """Cancel a queued task at once; mark a leased one, which its settlement or loss makes final.

    An ack that comes first completes it. What has ended stays as it ended.
    """
    row = state.tasks.get(seq_of(command.task_id) or 0)
    if row is None or row.id != command.task_id:
        ended = state.loaded.ended.get(command.task_id)
        if ended is None or ended.live.namespace != command.namespace or ended.visible_until <= state.now:
            return Cancelled(None)
        return Cancelled(ended.state)
    if row.queue.key[0] != command.namespace:
        return Cancelled(None)
    if row.lease is None:
        finish(state, row, TaskState.CANCELLED, reason=EndReason.CANCELLED)
        return Cancelled(TaskState.CANCELLED)
    if not row.cancel:
        row.cancel = True
        state.out.record(row, state.now, "cancel_requested", None, None)
    return Cancelled(TaskState.LEASED, requested=True)
