"""What happens by the clock alone, after the commands of a step: what has arrived comes before what is due."""

from heapq import heappop
from typing import TYPE_CHECKING, cast

from leadsman.wire.tasks import TaskState
from leadsman_broker.core import budgets
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.cordoning import lift_expired_cordons
from leadsman_broker.core.fencing import lift_expired
from leadsman_broker.core.leases import reclaim_due
from leadsman_broker.core.placement import became_ready, finish, watch_delayed
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.rows import QueueKey
from leadsman_broker.core.runs import end_overdue, next_to_cancel
from leadsman_broker.core.tasks import LEASED
from leadsman_broker.core.workers import forget_silent

if TYPE_CHECKING:
    from leadsman_broker.core.state import State

PROMOTIONS_PER_STEP = 10_000
"""Most delayed tasks of a queue made ready in one step; they cost no write."""


def run(state: "State") -> None:
    """Reclaim lost leases, make due tasks ready, end what has expired, and ring the alarms."""
    reclaim_due(state)
    _expire(state)
    _stop_runs(state)
    later: list[tuple[str, QueueKey]] = []
    for key in state.alarms.due(state.now):
        if key == "fences":
            lift_expired(state)
            state.alarms.set("fences", min((row.expires_at for row in state.fences.values()), default=None))
        elif key == "cordons":
            lift_expired_cordons(state)
            state.alarms.set("cordons", min((row.expires_at for row in state.cordons.values()), default=None))
        elif key == "workers":
            forget_silent(state)
            watch_workers(state)
        else:
            kind, queue_key = cast("tuple[str, QueueKey]", key)
            queue = state.queues.get(queue_key)
            if queue is not None and not _ring(state, kind, queue):
                later.append((kind, queue_key))
    for again in later:
        state.alarms.set(again, state.now)


def watch_workers(state: "State") -> None:
    """Look for silent workers again in a while, as long as there are any workers."""
    state.alarms.set("workers", state.now + state.settings.worker_forget_seconds / 8 if state.workers else None)


def _ring(state: "State", kind: str, queue: Queue) -> bool:
    """Do what an alarm of a queue is for; False: not finished, ring again in the next step."""
    if kind == "due":
        moved = queue.promote(state.tasks, state.now, PROMOTIONS_PER_STEP)
        if moved:
            edge = queue.ready == moved
            became_ready(state, queue)
            state.queue_changed(queue, urgent=edge)
        watch_suspects(state, queue)
        if moved == PROMOTIONS_PER_STEP:
            return False
        watch_delayed(state, queue)
    elif kind == "budget":
        budgets.turn(state, queue)
    elif kind == "soon":
        if queue.count_soon(state.tasks, state.now):
            state.queue_changed(queue, urgent=True)
        watch_delayed(state, queue)
    elif kind == "suspects":
        settings = state.settings
        limit = settings.timers_per_step
        released = queue.line.give_up_suspicions(state.now, settings.suspect_patience_seconds, limit)
        for row in released:
            state.out.touched[row.seq] = row
        if released:
            became_ready(state, queue)
        if len(released) == limit:
            return False
        watch_suspects(state, queue)
    elif kind == "pace":
        if queue.ready:
            state.hot[queue.key] = None
            state.queue_changed(queue)
    else:
        state.out.service_times[queue.key] = queue.service_times.snapshot()
    return True


def watch_suspects(state: "State", queue: Queue) -> None:
    """Set the alarm for the suspect that loses patience first."""
    since = queue.line.suspect_since()
    patience = state.settings.suspect_patience_seconds
    state.alarms.set(("suspects", queue.key), None if since is None else since + patience)


def _stop_runs(state: "State") -> None:
    """Fail runs whose time is over, and cancel what is queued of those that were stopped."""
    end_overdue(state)
    for row in next_to_cancel(state):
        finish(state, row, TaskState.CANCELLED, reason=EndReason.RUN_STOPPED)


def _expire(state: "State") -> None:
    """End queued tasks whose ttl has run out. A leased one goes on; it is looked at when it comes back."""
    heap = state.expiries
    left = state.settings.timers_per_step
    while left and heap and heap[0][0] <= state.now:
        at, seq = heappop(heap)
        row = state.tasks.get(seq)
        if row is None or row.expires_at != at or row.state is LEASED:
            continue
        finish(state, row, TaskState.EXPIRED, reason=EndReason.EXPIRED)
        left -= 1
