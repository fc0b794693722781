"""What the scaler is told of a queue, a worker and the fences: from memory, at a cost free of the depth."""

from collections import Counter
from typing import TYPE_CHECKING

from leadsman.wire.stats import CapabilityStats, CordonStats, FenceStats, WorkerStats
from leadsman_broker.core.demand import oldest_since, work_of
from leadsman_broker.core.tenants import BACKGROUND
from leadsman_broker.core.workers import WorkerRow

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State


def queue_stats(state: "State", queue: "Queue", now: float) -> CapabilityStats:
    """Return one queue at `now`."""
    tasks = state.tasks
    queue.count_soon(tasks, now)
    due = queue.next_due(tasks)
    since = oldest_since(queue)
    work = work_of(state, queue, now)
    totals = queue.totals
    return CapabilityStats(
        namespace=queue.key[0],
        name=queue.key[1],
        ready=queue.ready + queue.line.barred,
        delayed=queue.delayed,
        leased=queue.leased,
        dead=queue.dead,
        waiting=work.waiting,
        leasable=work.leasable,
        due_soon=work.due_soon,
        next_due_seconds=None if due is None else max(0.0, due - now),
        oldest_age_seconds=None if since is None else max(0.0, now - since),
        service_seconds=queue.service_times.mean(),
        background_ready=queue.line.ready[BACKGROUND],
        background_leased=queue.line.in_flight[BACKGROUND],
        blocked={reason.value: count for reason, count in work.blocked.items() if count},
        accepted_total=totals.accepted,
        completed_total=totals.completed,
        failed_total=totals.failed,
        reclaimed_total=totals.reclaimed,
        refused_total=totals.refused,
        shed_total=totals.shed,
        no_progress_total=totals.no_progress,
        configured=queue.configured,
        paused=queue.paused,
    )


def worker_stats(state: "State", worker: WorkerRow, now: float) -> WorkerStats:
    """Return one worker at `now`."""
    bound = worker.fence or worker.cordon
    held = Counter(state.tasks[seq].queue.key[1] for seq in worker.leases)
    return WorkerStats(
        id=worker.id,
        pod_uid=worker.key[1],
        namespace=worker.key[0],
        pool=worker.pool,
        capabilities=list(worker.capabilities),
        slots=worker.slots,
        leases=len(worker.leases),
        leases_by_capability=dict(held),
        idle_seconds=0.0 if worker.leases else max(0.0, now - worker.idle_since),
        last_heard_seconds=max(0.0, now - worker.heard_at),
        parked=worker.call is not None,
        state=worker.state,
        operation=bound.operation if bound is not None else None,
    )


def fence_stats(state: "State", now: float) -> list[FenceStats]:
    """Return the fences in force."""
    return [
        FenceStats(pod_uid=row.pod_uid, operation=row.operation, expires_in_seconds=max(0.0, row.expires_at - now))
        for row in state.fences.values()
    ]


def cordon_stats(state: "State", now: float) -> list[CordonStats]:
    """Return the cordons in force."""
    return [
        CordonStats(
            pod_uid=row.pod_uid,
            operation=row.operation,
            drain=row.drain,
            expires_in_seconds=max(0.0, row.expires_at - now),
        )
        for row in state.cordons.values()
    ]
