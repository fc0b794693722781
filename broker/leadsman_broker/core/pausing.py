"""Pausing a capability: nothing of it is leased until it is resumed; what is leased goes on, new work is accepted.

A person's decision, so it is kept apart from the configuration, which a controller pushes whenever it likes.
"""

from typing import TYPE_CHECKING

from leadsman_broker.core.commands import Pause, Resume
from leadsman_broker.core.results import Paused
from leadsman_broker.core.rows import PauseRow, QueueKey

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def pause(state: "State", command: Pause) -> Paused:
    """Pause a capability; one that is paused keeps its time and reason."""
    key = (command.namespace, command.capability)
    known = state.pauses.get(key)
    if known is not None:
        return Paused(known)
    if key not in state.queues:
        return Paused(None, known=False)
    row = PauseRow(*key, state.now, command.reason)
    _put(state, key, row)
    return Paused(row, changed=True)


def resume(state: "State", command: Resume) -> Paused:
    """Resume a capability, also one that is not there any more; the calls that wait for its work get it."""
    key = (command.namespace, command.capability)
    if key in state.pauses:
        _put(state, key, None)
        return Paused(None, changed=True)
    return Paused(None, known=key in state.queues)


def _put(state: "State", key: QueueKey, row: PauseRow | None) -> None:
    if row is None:
        del state.pauses[key]
    else:
        state.pauses[key] = row
    state.out.pauses[key] = row
    queue = state.queues.get(key)
    if queue is None:
        return
    queue.paused = row is not None
    if row is None:
        queue.opened_at = state.now
        state.out.opened(queue, state.now)
        state.hot[key] = None
    state.queue_changed(queue, urgent=True)
