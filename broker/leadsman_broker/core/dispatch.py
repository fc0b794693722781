"""Ready tasks meet parked lease calls.

Runs once at the end of a step, so that a batch of new work fills the fullest workers first and each call is
answered once with all it got. Work conserving: afterwards no queue has a task that a waiting call may take, but one
that is left hot: it had too many tasks to end for one step.
"""

from typing import TYPE_CHECKING

from leadsman_broker.core.ceilings import watch_pace
from leadsman_broker.core.leases import grant
from leadsman_broker.core.picking import can_serve, look_ahead, pick
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.waiting import Call, Entry, empty_handed, end, first, offer, pass_over, put_back

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def dispatch(state: "State") -> None:
    """Give out what can be given, and answer the calls that got something."""
    served: dict[int, Call] = {}
    state.ends_left = state.settings.timers_per_step
    while state.hot:
        key = next(iter(state.hot))
        del state.hot[key]
        queue = state.queues.get(key)
        if queue is not None and queue.ready and not queue.paused:
            _serve(state, queue, served)
            look_ahead(state, queue)
    for call in served.values():
        end(state, call)
    state.hot.update(state.hot_again)
    state.hot_again.clear()


def _serve(state: "State", queue: Queue, served: dict[int, Call]) -> None:
    passed: list[Entry] = []
    while can_serve(state, queue) and (call := first(queue)) is not None:
        if _fill(state, call, queue):
            served[call.id] = call
            offer(state, call)
        else:
            passed.append(pass_over(queue))
    put_back(queue, passed)
    if queue.line.suspects:
        for call in empty_handed(queue):
            if can_serve(state, queue, call.worker) and _fill(state, call, queue):
                served[call.id] = call
                offer(state, call)
    watch_pace(state, queue)


def _fill(state: "State", call: Call, origin: Queue) -> bool:
    """Give the first call of a queue as much as it may have; say whether it got anything.

    A worker of several capabilities starts after the one it was last served, and goes round with every task; of
    another queue it takes only what no better packed worker is waiting for.
    """
    worker = call.worker
    if len(call.capabilities) == 1:  # most workers: there is no turn to keep
        (capability,) = call.capabilities
        before = len(call.granted)
        room = call.capacity()
        while room > 0 and call.takes(capability) and (row := pick(state, origin, worker)) is not None:
            _give(state, call, row)
            room = 0 if worker.alone else room - 1
        return len(call.granted) > before
    namespace = worker.key[0]
    got = False
    while call.capacity() > 0:
        for capability in _rotation(call.capabilities, worker.last_served):
            queue = state.queues.get((namespace, capability))
            if queue is None or not call.takes(capability):
                continue
            if queue is not origin and first(queue) is not call:
                continue
            row = pick(state, queue, worker)
            if row is not None:
                _give(state, call, row)
                got = True
                break
        else:
            break
    return got


def _give(state: "State", call: Call, row: TaskRow) -> None:
    call.granted.append(grant(state, row, call.worker, call.attempt_id))
    if call.free_by is not None:
        capability = row.queue.key[1]
        call.free_by[capability] = call.free_by.get(capability, call.free) - 1


def _rotation(capabilities: tuple[str, ...], last: str) -> tuple[str, ...]:
    if len(capabilities) == 1 or last not in capabilities:
        return capabilities
    start = capabilities.index(last) + 1
    return capabilities[start:] + capabilities[:start]
