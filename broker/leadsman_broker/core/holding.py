"""The link between a leased task and its worker: made in one place, undone in one place."""

from heapq import heappush
from typing import TYPE_CHECKING

from leadsman_broker.core.tasks import Lease, TaskRow
from leadsman_broker.core.waiting import rank_again

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def hold(state: "State", row: TaskRow, lease: Lease) -> None:
    """Give a task, already taken from its queue, to the lease's worker."""
    worker = lease.worker
    row.lease = lease
    state.held[lease.token] = row
    worker.leases.add(row.seq)
    if row.suspect:
        worker.alone = True
    heappush(state.lease_ends, (lease.wakes_at, row.seq, row.epoch))
    state.worker_changed(worker, urgent=len(worker.leases) == 1)


def let_go(state: "State", row: TaskRow) -> None:
    """Take a task from its worker; the task must go somewhere at once, which also notes that its queue changed."""
    lease = row.lease
    assert lease is not None  # noqa: S101  # a caller that lets go of what is not held has lost count
    worker = lease.worker
    row.lease = None
    del state.held[lease.token]
    queue = row.queue
    if queue.take_back(row, state.now):
        state.opened[queue.key, None] = None
        state.opened[queue.key, row.tenant] = None
    line = queue.line
    if line.ordinary or line.suspects:
        state.hot[queue.key] = None  # a ceiling or a cap may have room again
    worker.leases.remove(row.seq)
    worker.last_end = state.now
    if not worker.leases:
        worker.idle_since = state.now
        worker.alone = False
    state.worker_changed(worker, urgent=not worker.leases)
    rank_again(state, worker)
