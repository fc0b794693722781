"""Parked lease calls, and which of them gets the next task.

Packing: a task goes to the waiting worker that holds the most leases and has a free slot, ties to the most recent
end of a lease. In order of waiting, load would spread, no worker would stay idle, and scale-in would not start.

Each queue has a heap of the calls that may take from it. An entry counts while it carries its call's current stamp;
whatever changes a call's rank gives it a new stamp and new entries.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from leadsman.wire.leases import WorkerState
from leadsman_broker.core.results import Answer, Granted
from leadsman_broker.core.workers import WorkerRow

if TYPE_CHECKING:
    from leadsman_broker.core.commands import Lease
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State

GONE = -1


class Call:
    """A lease call that waits."""

    __slots__ = ("attempt_id", "capabilities", "free", "free_by", "granted", "id", "stamp", "until", "worker")

    def __init__(self, command: "Lease", worker: WorkerRow, now: float) -> None:
        self.id = command.call
        self.worker = worker
        self.capabilities = command.capabilities
        self.free = command.free_slots
        self.free_by = dict(command.free_by_capability) if command.free_by_capability else None
        self.attempt_id = command.attempt_id
        self.until = now + command.wait_seconds
        self.stamp = GONE
        self.granted: list[Granted] = []

    def capacity(self) -> int:
        """Return how many more tasks it may be given: what it asked for, and never beyond the worker's slots.

        A worker that asks again after a lost reply counts as free what it does not know it holds.
        """
        worker = self.worker
        if worker.alone:
            return 0
        return min(self.free - len(self.granted), worker.slots - len(worker.leases))

    def takes(self, capability: str) -> bool:
        """Say whether it may be given a task of this capability."""
        return self.free_by is None or self.free_by.get(capability, self.free) > 0


Entry = tuple[int, float, int, Call]


def park(state: "State", call: Call) -> None:
    """Let a call wait; the worker's older one, if any, ends with nothing."""
    worker = call.worker
    if worker.call is not None:
        end(state, worker.call)
    worker.call = call
    state.calls[call.id] = call
    heappush(state.call_ends, (call.until, call.id))
    offer(state, call)
    state.worker_changed(worker)


def offer(state: "State", call: Call) -> None:
    """Rank a waiting call anew in every queue it may take from, and look for work if there is any."""
    state.stamp += 1
    call.stamp = state.stamp
    if call.capacity() <= 0:
        return
    worker = call.worker
    entry = (-len(worker.leases), -worker.last_end, call.stamp, call)
    namespace = worker.key[0]
    for capability in call.capabilities:
        queue = state.queues.get((namespace, capability))
        if queue is not None and call.takes(capability):
            _push(state, queue, entry)
            if queue.ready:
                state.hot[queue.key] = None


def withdraw(state: "State", call: Call) -> None:
    """Take a call out of every queue: it was answered, displaced or abandoned."""
    call.stamp = GONE
    state.calls.pop(call.id, None)
    if call.worker.call is call:
        call.worker.call = None
    state.worker_changed(call.worker)


def end(state: "State", call: Call) -> None:
    """Answer a call with what it was given."""
    withdraw(state, call)
    worker = call.worker
    if call.granted:
        worker.answered = call.attempt_id
    state.answers.append(Answer(call.id, worker.state, tuple(call.granted)))


def end_expired(state: "State") -> None:
    """Answer the calls whose wait is over."""
    ends = state.call_ends
    while ends and ends[0][0] <= state.now:
        call = state.calls.get(heappop(ends)[1])
        if call is not None and call.until <= state.now:
            end(state, call)


def rank_again(state: "State", worker: WorkerRow) -> None:
    """Follow a change of what a worker holds, if a call of its is waiting."""
    if worker.call is not None:
        offer(state, worker.call)


def first(queue: "Queue") -> Call | None:
    """Return the call that gets the queue's next task."""
    heap = queue.waiters
    while heap:
        _, _, stamp, call = heap[0]
        if call.stamp == stamp:
            return call
        heappop(heap)
    return None


def empty_handed(queue: "Queue") -> list[Call]:
    """Return the waiting calls of workers that hold nothing, in order of rank. Looks at all; for suspects only."""
    entries = [entry for entry in queue.waiters if entry[3].stamp == entry[2] and not entry[3].worker.leases]
    return [entry[3] for entry in sorted(entries)]


def pass_over(queue: "Queue") -> Entry:
    """Take the first call out of a queue's heap, to be put back."""
    return heappop(queue.waiters)


def put_back(queue: "Queue", entries: list[Entry]) -> None:
    """Put back calls that were passed over, those that still wait with the same rank."""
    for entry in entries:
        if entry[3].stamp == entry[2]:
            heappush(queue.waiters, entry)


def end_unless_active(state: "State", worker: WorkerRow) -> None:
    """End the parked call of a worker that may get nothing any more."""
    if worker.call is not None and worker.state is not WorkerState.ACTIVE:
        end(state, worker.call)


def _push(state: "State", queue: "Queue", entry: Entry) -> None:
    heap = queue.waiters
    heappush(heap, entry)
    if len(heap) > 64 + 4 * len(state.calls):  # stale entries at the bottom of a queue that is never served
        queue.waiters = [kept for kept in heap if kept[3].stamp == kept[2]]
        heapify(queue.waiters)
