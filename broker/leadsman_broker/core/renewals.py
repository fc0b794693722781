"""Heartbeats: one call renews every lease of a worker and tells it what the broker wants of it."""

from typing import TYPE_CHECKING

from leadsman.wire.leases import LeaseStatus
from leadsman_broker.core import ledger
from leadsman_broker.core.commands import Beat, Heartbeat
from leadsman_broker.core.ids import parse_token
from leadsman_broker.core.leases import attempt_end, give_back_missing, reclaim, renew
from leadsman_broker.core.remaining import remaining
from leadsman_broker.core.results import BeatOutcome, HeartbeatOutcome
from leadsman_broker.core.settlements import leased_task, save_checkpoint
from leadsman_broker.core.tasks import Lease, TaskRow
from leadsman_broker.core.waiting import end_unless_active
from leadsman_broker.core.workers import WorkerRow, hear

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def heartbeat(state: "State", command: Heartbeat) -> HeartbeatOutcome:
    """Renew what the worker lists, still holds and shows progress of. A plain renewal writes nothing."""
    worker = hear(state, command.worker, command.capabilities, command.slots)
    if worker.draining != command.draining:
        worker.draining = command.draining
        state.worker_changed(worker, urgent=True)
        end_unless_active(state, worker)
    held: set[int] = set()
    outcomes = [_beat(state, worker, beat, held) for beat in command.leases]
    if worker.leases:
        give_back_missing(state, worker, held)
    return HeartbeatOutcome(worker.state, tuple(outcomes))


def _beat(state: "State", worker: WorkerRow, beat: Beat, held: set[int]) -> BeatOutcome:
    row = leased_task(state, worker.key[0], beat.token)
    if beat.usage is not None:
        if row is not None:
            ledger.report(state, row, beat.usage)
        elif (token := parse_token(beat.token)) is not None:
            ledger.report_late(state, worker.key[0], token, beat.usage)
    if row is None or row.lease is None or row.lease.worker is not worker:
        return BeatOutcome(beat.token, LeaseStatus.LEASE_LOST)
    if state.now >= attempt_end(row, row.lease):
        reclaim(state, row)
        return BeatOutcome(beat.token, LeaseStatus.LEASE_LOST)
    held.add(row.seq)
    if beat.checkpoint is not None:
        save_checkpoint(state, row, beat.checkpoint)
    _note_progress(state, row.lease, beat)
    status = LeaseStatus.OK
    if _shows_progress(state, row, row.lease):
        renew(state, row, row.lease)
    else:
        status = LeaseStatus.NO_PROGRESS
        _refuse(state, row, row.lease, worker)
    if row.cancel:  # the one word after which nobody wants the work: said first, renewed or not
        status = LeaseStatus.CANCELLED
    left = remaining(state, row, row.lease) if row.run_id or row.queue.budget is not None else None
    return BeatOutcome(beat.token, status, row.lease.expires_at, left)


def _note_progress(state: "State", lease: Lease, beat: Beat) -> None:
    grown = beat.progress_seq is not None and beat.progress_seq > lease.progress_seq
    if beat.progress_seq is not None and grown:
        lease.progress_seq = beat.progress_seq
    if grown or beat.checkpoint is not None:
        lease.progress_at = state.now


def _shows_progress(state: "State", row: TaskRow, lease: Lease) -> bool:
    limit = row.queue.rules.progress_timeout_seconds
    return limit is None or state.now - lease.progress_at < limit


def _refuse(state: "State", row: TaskRow, lease: Lease, worker: WorkerRow) -> None:
    """Let the lease run out; counted and told in the history once for each attempt."""
    if lease.refused:
        return
    lease.refused = True
    row.queue.totals.no_progress += 1
    state.out.totals.add(row.queue)
    state.queue_changed(row.queue)
    quiet = state.now - lease.progress_at
    state.out.record(row, state.now, "no_progress", worker.id, f"for {quiet:.0f} s; the lease is not renewed")
