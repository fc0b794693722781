"""Leases: given, renewed, lost.

Only the broker's clock counts. A lease is never reclaimed before its expiry; when the broker itself stood still,
every lease is extended as after a start, because the workers could not have renewed it.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core import ledger
from leadsman_broker.core.attempts import EndReason, count_reclaim, retry_delay
from leadsman_broker.core.holding import hold
from leadsman_broker.core.ids import make_token, new_secret
from leadsman_broker.core.making import make
from leadsman_broker.core.placement import finish, requeue
from leadsman_broker.core.remaining import remaining
from leadsman_broker.core.results import Granted
from leadsman_broker.core.tasks import Lease, TaskRow
from leadsman_broker.core.workers import WorkerRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State

STALL_SHARE = 0.25
"""Two steps further apart than this share of a lease are a stall for it."""


def grant(state: "State", row: TaskRow, worker: WorkerRow, attempt_id: str) -> Granted:
    """Lease a task, taken from its queue, to a worker: a new epoch, a new token."""
    rules = row.queue.rules
    row.epoch += 1
    row.secret = new_secret(state.rand)
    slack = rules.lease_seconds * state.settings.reclaim_jitter * state.rand.random()
    expires_at = state.now + min(rules.lease_seconds, rules.attempt_timeout_seconds)
    token = make_token(row.id, row.epoch, row.secret)
    lease = Lease(token, worker, attempt_id, state.now, expires_at, slack)
    hold(state, row, lease)
    if row.queue.budget is not None:
        ledger.reserve(state, row, lease)
    worker.last_served = row.queue.key[1]
    state.out.touched[row.seq] = row
    state.queue_changed(row.queue, urgent=row.queue.ready == 0)
    return describe(state, row, lease)


def describe(state: "State", row: TaskRow, lease: Lease) -> Granted:
    """Return what a worker is told of a lease it holds."""
    queue = row.queue
    rules = queue.rules
    namespace, capability = queue.key
    return make(
        Granted,
        (
            lease.token,
            row.id,
            row.tenant,
            row.task_class,
            row.priority,
            row.failures + row.reclaims + 1,
            row.max_attempts,
            row.epoch,
            row.run_id,
            state.now - row.accepted_at,
            row.seq < state.restored_below,
            row.epoch == 1 and lease.started_at == state.now,
            remaining(state, row, lease) if row.run_id or queue.budget is not None else None,
            namespace,
            capability,
            lease.expires_at,
            rules.lease_seconds,
            rules.heartbeat_seconds or rules.lease_seconds / 3,
            max(0.0, lease.started_at + rules.attempt_timeout_seconds - state.now),
            rules.progress_timeout_seconds,
            rules.unreachable_seconds,
        ),
    )


def attempt_end(row: TaskRow, lease: Lease) -> float:
    """Return the time that no renewal goes beyond."""
    return lease.started_at + row.queue.rules.attempt_timeout_seconds


def renew(state: "State", row: TaskRow, lease: Lease) -> None:
    """Move the expiry forward, up to the end of the attempt. Writes nothing."""
    lease.expires_at = min(state.now + row.queue.rules.lease_seconds, attempt_end(row, lease))
    lease.stalled = lease.refused = False
    if lease.expires_at + lease.slack < lease.wakes_at:  # the capability's lease was shortened
        _watch(state, row, lease)


def reclaim(state: "State", row: TaskRow) -> None:
    """Take a task back from a worker that did not renew it, or that held it too long."""
    lease = row.lease
    assert lease is not None  # noqa: S101  # only ever called for a leased task
    worker = lease.worker
    timed_out = lease.expires_at >= attempt_end(row, lease)
    overdue = timed_out or lease.refused  # the task's own fault: its worker may be well
    accompanied = not overdue and (worker.lost or len(worker.leases) > 1)
    worker.lost = worker.lost or not overdue
    ledger.close(state, row, ledger.LOST)
    row.queue.totals.reclaimed += 1
    state.out.totals.add(row.queue)

    delay = 0.0
    dead: EndReason | None = None
    if lease.stalled:
        detail = "the broker had stalled; not counted"
    else:
        detail = "attempt timeout" if timed_out else "no progress" if lease.refused else "lease not renewed"
        dead = count_reclaim(row, draining=worker.draining, accompanied=accompanied)
        if row.reclaims > 1:
            delay = retry_delay(row, state.settings, state.rand)
    state.out.record(row, state.now, "reclaimed", worker.id, detail)
    if row.cancel:
        finish(state, row, TaskState.CANCELLED, reason=EndReason.CANCELLED)
    elif dead is not None:
        finish(state, row, TaskState.DEAD, reason=dead)
    else:
        requeue(state, row, delay=delay)


def reclaim_due(state: "State") -> None:
    """Reclaim what has expired, at most `timers_per_step`; the rest is due at once in the next step."""
    heap = state.lease_ends
    left = state.settings.timers_per_step
    while left and heap and heap[0][0] <= state.now:
        at, seq, epoch = heappop(heap)
        row = state.tasks.get(seq)
        if row is None or row.epoch != epoch or row.lease is None or row.lease.wakes_at != at:
            continue
        if row.lease.expires_at + row.lease.slack > state.now:
            _watch(state, row, row.lease)
        else:
            reclaim(state, row)
            left -= 1


def give_back_missing(state: "State", worker: WorkerRow, held: set[int], attempt_id: str | None = None) -> None:
    """Take back what two lists of a worker in a row did not name: the reply that gave it was lost.

    Spends no counter. A list made while the reply may still be under way is no evidence; nor is one that asks again
    for the leases of the same `attempt_id`.
    """
    recent = state.now - state.settings.delivery_grace_seconds
    for seq in [*worker.leases]:
        row = state.tasks[seq]
        lease = row.lease
        if lease is None or seq in held or lease.attempt_id == attempt_id:
            if lease is not None:
                lease.missing = False
        elif lease.sent_at > recent:
            continue
        elif not lease.missing:
            lease.missing = True
        else:
            ledger.close(state, row, ledger.RELEASED)
            state.out.record(row, state.now, "undelivered", worker.id, None)
            if row.cancel:
                finish(state, row, TaskState.CANCELLED, reason=EndReason.CANCELLED)
            else:
                requeue(state, row)


def extend_after_stall(state: "State", gap: float) -> None:
    """Treat a gap between two steps as a restart for every lease of which it is more than a quarter.

    Such a lease becomes min(max(expiry, now + lease), attempt start + attempt timeout), and its loss is not counted
    unless the worker renews it first.
    """
    for queue in state.queues.values():
        if queue.leased and gap > queue.rules.lease_seconds * STALL_SHARE:
            break
    else:
        return
    for worker in state.workers.values():
        for seq in worker.leases:
            row = state.tasks[seq]
            if row.lease is not None and gap > row.queue.rules.lease_seconds * STALL_SHARE:
                extend(row, row.lease, state.now)


def extend(row: TaskRow, lease: Lease, now: float) -> None:
    """Give a lease the time that the broker was away for."""
    extended = max(lease.expires_at, now + row.queue.rules.lease_seconds)
    lease.expires_at = min(extended, attempt_end(row, lease))
    lease.progress_at = now
    lease.refused = False
    lease.stalled = True


def _watch(state: "State", row: TaskRow, lease: Lease) -> None:
    lease.wakes_at = lease.expires_at + lease.slack
    heappush(state.lease_ends, (lease.wakes_at, row.seq, row.epoch))
