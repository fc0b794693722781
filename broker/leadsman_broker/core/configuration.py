"""The capabilities of a namespace: pushed as a full set, with a generation."""

from typing import TYPE_CHECKING

from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import budgets, shedding
from leadsman_broker.core.commands import Configure
from leadsman_broker.core.placement import forget_queue, watch_delayed
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.results import Configured
from leadsman_broker.core.rows import NamespaceRow
from leadsman_broker.core.waiting import offer

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def configure(state: "State", command: Configure) -> Configured:
    """Put a namespace's set into force; an older generation than the known one changes nothing.

    A queue that is no longer listed takes no new work. It stays, with its last rules, as long as it holds a task.
    """
    namespace = command.namespace
    before = state.namespaces.get(namespace, NamespaceRow(namespace, 0))
    if command.generation < before.generation:
        return Configured(before.generation, applied=False, retained=_retained_names(before))

    listed = {rules.name: rules for rules in command.capabilities}
    for rules in listed.values():
        _put(state, (namespace, rules.name), rules)
    retained = []
    for queue in [queue for queue in state.queues.values() if queue.key[0] == namespace]:
        if queue.key[1] in listed:
            continue
        if queue.holds_tasks:
            retained.append(queue.rules)
            if queue.configured:
                queue.configured = False
                state.queue_changed(queue, urgent=True)
        else:
            forget_queue(state, queue)

    row = NamespaceRow(namespace, command.generation, tuple(listed.values()), tuple(retained))
    state.namespaces[namespace] = row
    if row != before:
        state.out.namespaces[namespace] = row
    return Configured(row.generation, applied=True, retained=_retained_names(row))


def _put(state: "State", key: tuple[str, str], rules: CapabilityConfig) -> None:
    queue = state.queues.get(key)
    if queue is None:
        queue = state.queues[key] = Queue(key, rules, state.tasks, state.now, configured=True)
        queue.paused = key in state.pauses
        budgets.follow(state, queue)
        state.queue_changed(queue, urgent=True)
        for call in [*state.calls.values()]:  # workers may have been waiting for it
            if call.worker.key[0] == key[0] and key[1] in call.capabilities:
                offer(state, call)
        return
    if queue.rules == rules and queue.configured:
        return
    startup_changed = queue.rules.startup_seconds != rules.startup_seconds
    for opened in queue.follow(rules, state.now):
        state.opened[key, opened] = None
    budgets.follow(state, queue)
    shedding.follow(state, queue)
    queue.configured = True
    if queue.ready:
        state.hot[key] = None
    state.queue_changed(queue, urgent=True)
    if startup_changed:
        queue.recount_soon(state.tasks)
        watch_delayed(state, queue)


def _retained_names(row: NamespaceRow) -> tuple[str, ...]:
    return tuple(rules.name for rules in row.retained)
