"""A task's history as people read it: every delivery and every end, from few stored rows.

Acceptance, the present lease and completion are in the task's own row, and what ends a lease without completing the
task says when that lease began: so the path on which nothing goes wrong writes no history at all.
"""

from leadsman.wire.tasks import HistoryEntry, TaskState
from leadsman_broker.store.interface import TaskRecord

_END_A_LEASE = frozenset({"failed", "released", "reclaimed", "undelivered"})


def history_of(record: TaskRecord) -> list[HistoryEntry]:
    """Return all that is known to have happened to a task, in order."""
    live, standing, ended = record.live, record.live.standing, record.ended
    found = [HistoryEntry(at=live.accepted_at, event="accepted", epoch=0)]
    told: set[int] = set()
    for row in record.history:
        if row.event in _END_A_LEASE and row.began is not None:
            told.add(row.epoch)
            found.append(HistoryEntry(at=row.began, event="leased", epoch=row.epoch, worker=row.worker))
        found.append(
            HistoryEntry(at=row.at, event=row.event, epoch=row.epoch, worker=row.worker, detail=row.detail)
        )
    holder = None
    if standing.lease_pod is not None:
        holder = f"{standing.lease_pod}.{standing.lease_incarnation}"
    if standing.lease_started_at is not None and standing.epoch not in told:
        found.append(
            HistoryEntry(at=standing.lease_started_at, event="leased", epoch=standing.epoch, worker=holder)
        )
    if ended is not None and ended.state is TaskState.COMPLETED:
        late = "after its lease was lost" if ended.late else None
        found.append(
            HistoryEntry(at=ended.ended_at, event="completed", epoch=standing.epoch, worker=holder, detail=late)
        )
    found.sort(key=lambda entry: entry.at)
    return found
