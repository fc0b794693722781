"""Gates: what else a task may have to wait for before it is leased, such as a budget.

A gate is asked about exactly the task that would be leased now, and only then. If it says no, everything that waits
for the same thing leaves the line - the tenant's tasks of that class, or all of the queue's - so that no pick looks
at them again. Whoever owns the resource says when it is there again: `lift`. A lift too many does no harm, the gate
is asked again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from leadsman.reasons import Reason
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.tenants import BACKGROUND, INTERACTIVE

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State

CLASSES = (BACKGROUND, INTERACTIVE)


class Hold(NamedTuple):
    """What a gate says when a task must wait."""

    reason: Reason
    whole_queue: bool
    """True: all tasks of its class in the queue wait for the same; False: only its tenant's."""


Gate = Callable[["State", "Queue", TaskRow], Hold | None]


def ask(state: "State", queue: "Queue", row: TaskRow) -> Hold | None:
    """Say why this task, whose turn it is, may not be leased now; None lets it through, and it is leased next."""
    for gate in state.gates:
        found = gate(state, queue, row)
        if found is not None:
            return found
    return None


def hold(state: "State", queue: "Queue", reason: Reason, *, interactive: int, tenant: str | None = None) -> None:
    """Hold back the tasks of a class, of the queue or of one tenant, until `lift`."""
    if tenant is None:
        queue.held[interactive].add(reason)
    else:
        queue.line.hold(tenant, interactive, reason)
    state.queue_changed(queue, urgent=tenant is None)


def lift(state: "State", queue: "Queue", reason: Reason, *, tenant: str | None = None) -> None:
    """End what is held for this reason, in both classes: of one tenant, or (None) of the queue and all tenants."""
    lifted = False
    for interactive in CLASSES:
        for name in queue.line.lift(interactive, reason, state.now, tenant):
            state.out.opened(queue, state.now, tenant=name, interactive=bool(interactive))
            lifted = True
        if tenant is None and reason in queue.held[interactive]:
            queue.held[interactive].discard(reason)
            queue.opened_at = state.now
            state.out.opened(queue, state.now)
            lifted = True
    if lifted:
        state.queue_changed(queue, urgent=True)
        if queue.ready:
            state.hot[queue.key] = None
