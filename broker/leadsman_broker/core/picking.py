"""Which task of a queue goes next: a short sequence of stages, each of which narrows the choice.

What is closed is left out; then the highest priority that has an unblocked tenant, or now and then the lowest; in
it the tenant with the least in flight for its weight, ties to the least recently served; of that tenant the lowest
seq. Tenants over their cap come last, and only if the queue lets them use what would be idle. A worker that holds
nothing is offered the suspects as well, in the same order.
"""

from math import inf
from typing import TYPE_CHECKING

from leadsman.reasons import Reason
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import budgets, gates
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.ceilings import closed
from leadsman_broker.core.lanes import Lane, Tasks
from leadsman_broker.core.line import OVER_CAP, SUSPECT
from leadsman_broker.core.placement import finish
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.rotation import Shelf
from leadsman_broker.core.runs import is_doomed
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.tenants import BACKGROUND, INTERACTIVE
from leadsman_broker.core.workers import WorkerRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State

BOTH = (BACKGROUND, INTERACTIVE)


def can_serve(state: "State", queue: Queue, worker: WorkerRow | None = None) -> bool:
    """Say whether the queue has a task that this worker may have; None: a worker that holds something."""
    return bool(_open_shelves(state, queue, worker))


def pick(state: "State", queue: Queue, worker: WorkerRow) -> TaskRow | None:
    """Take the next task for this worker out of the queue; None when there is none for it.

    A task whose ttl has run out ends here instead of being leased, and one of a stopped run; when these are many,
    the rest waits for the next step.
    """
    while (lane := _next_lane(state, queue, worker)) is not None:
        row = lane.head(state.tasks)
        assert row is not None  # noqa: S101  # a lane without tasks stands on no shelf
        expired = row.expires_at is not None and row.expires_at <= state.now
        if expired or (row.run_id and is_doomed(state, row)):
            if not state.ends_left:
                state.hot_again[queue.key] = None
                return None
            state.ends_left -= 1
            if expired:
                finish(state, row, TaskState.EXPIRED, reason=EndReason.EXPIRED)
            else:
                finish(state, row, TaskState.CANCELLED, reason=EndReason.RUN_STOPPED)
            continue
        held = gates.ask(state, queue, row)
        if held is not None:
            if not _keep_back(state, queue, row, held):
                return None
            continue
        queue.take(row, lane)
        if queue.pace.limited:
            queue.pace.take(state.now)
        return row
    return None


def look_ahead(state: "State", queue: Queue) -> None:
    """Hold back what the budget has no room for, though no worker asks: none is to be started for it."""
    for interactive in BOTH:
        while queue.budget is not None and (lane := _next_lane(state, queue, None, (interactive,))) is not None:
            row = lane.head(state.tasks)
            if row is None or (row.expires_at or inf) <= state.now or (row.run_id and is_doomed(state, row)):
                break  # it goes without a lease, and says nothing of the next
            held = budgets.no_room(state, queue, row)
            if held is None or not _keep_back(state, queue, row, held):
                break


def _keep_back(state: "State", queue: Queue, row: TaskRow, held: gates.Hold) -> bool:
    """Let a task wait for what a gate wants, and with it those that wait for the same; False: in the next step.

    One for which there is room in no window waits alone: those behind it go on.
    """
    if held.reason is Reason.BUDGET and budgets.excessive(queue, row.tenant, row.estimate) is not None:
        if not state.ends_left:
            state.hot_again[queue.key] = None
            return False
        state.ends_left -= 1
        queue.line.bar(row)
        state.queue_changed(queue)
        return True
    interactive = INTERACTIVE if row.task_class is TaskClass.INTERACTIVE else BACKGROUND
    gates.hold(state, queue, held.reason, interactive=interactive, tenant=None if held.whole_queue else row.tenant)
    return True


def _open_shelves(
    state: "State", queue: Queue, worker: WorkerRow | None, classes: tuple[int, ...] = BOTH
) -> list[Shelf]:
    """Return the shelves with tasks that this worker may have; over their cap only if there are no others."""
    line = queue.line
    shelves = line.shelves
    kinds: list[int] = []
    found: list[Shelf] = []
    for interactive in classes:
        if line.ready[interactive] and closed(state, queue, interactive) is None:
            kinds.append(interactive)
            if shelves[interactive].mask:
                found.append(shelves[interactive])
            if line.suspects and worker is not None and not worker.leases:
                kinds.append(interactive + SUSPECT)
                if shelves[interactive + SUSPECT].mask:
                    found.append(shelves[interactive + SUSPECT])
    return found or [shelves[kind + OVER_CAP] for kind in kinds if shelves[kind + OVER_CAP].mask]


def _next_lane(
    state: "State", queue: Queue, worker: WorkerRow | None, classes: tuple[int, ...] = BOTH
) -> Lane | None:
    shelves = _open_shelves(state, queue, worker, classes)
    if not shelves:
        return None
    mask = shelves[0].mask
    if len(shelves) > 1:
        for shelf in shelves:
            mask |= shelf.mask
    every = queue.rules.lowest_band_every
    # With one priority there is no lower one to starve, and its tenants' turns are left as they are.
    if every and (queue.picks + 1) % every == 0 and mask & (mask - 1):
        priority = (mask & -mask).bit_length() - 1
        lanes = [shelf.oldest(priority) for shelf in shelves if shelf.mask >> priority & 1]
        return lanes[0] if len(lanes) == 1 else min(lanes, key=lambda lane: _seq(lane, state.tasks))
    priority = mask.bit_length() - 1
    if len(shelves) == 1:
        return shelves[0].next(priority)
    lanes = [shelf.next(priority) for shelf in shelves if shelf.mask >> priority & 1]
    if len(lanes) == 1:
        return lanes[0]
    tenant = min(lanes, key=lambda lane: (lane.tenant.load, lane.tenant.served, _seq(lane, state.tasks))).tenant
    own = [lane for lane in tenant.lanes.values() if lane.priority == priority and lane.shelf in shelves]
    return min(own, key=lambda lane: _seq(lane, state.tasks))


def _seq(lane: Lane, tasks: Tasks) -> int:
    head = lane.head(tasks)
    return head.seq if head is not None else -1
