"""Redrive: dead tasks live again. Purge: they go for good."""

from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core import runs
from leadsman_broker.core.admission import saturated
from leadsman_broker.core.commands import Purge, Redrive
from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.placement import forget_queue, put_back, watch_expiry
from leadsman_broker.core.results import SATURATED, Purged, Redriven
from leadsman_broker.core.rows import EndedRow, PurgedRow, RedriveRow
from leadsman_broker.core.tasks import task_from

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State


REDRIVE_SHARE = 0.5
"""The share of a queue's depth that a paced redrive may fill."""


def redrive(state: "State", command: Redrive) -> list[Redriven]:
    """Put dead tasks back as far as admission allows: attempts anew, history kept, the same id, seq and payload."""
    return [_one(state, command, task_id) for task_id in command.task_ids]


def _one(state: "State", command: Redrive, task_id: str) -> Redriven:
    key = (command.namespace, command.capability)
    live = state.tasks.get(seq_of(task_id) or 0)
    if live is not None and live.id == task_id and live.queue.key == key:
        if _did(state, command, task_id):
            return Redriven(task_id, redriven=True, repeated=True)
        return Redriven(task_id, redriven=False, code="not_dead", reason=f"it is {live.state.value}")
    ended = state.loaded.ended.get(task_id)
    if ended is None or (ended.live.namespace, ended.live.capability) != key or ended.visible_until <= state.now:
        return Redriven(task_id, redriven=False, code="unknown_task", reason="no such task in this queue")
    if _did(state, command, task_id):
        return Redriven(task_id, redriven=True, repeated=True)
    if ended.state is not TaskState.DEAD or ended.live.seq in state.out.ended:
        # One that died in this very step was alive when the caller asked; a store ends rows after reviving others.
        return Redriven(task_id, redriven=False, code="not_dead", reason=f"it is {ended.state.value}")
    queue = state.queues.get(key)
    if queue is None or not queue.configured:
        reason = f"namespace {key[0]} has no capability {key[1]}"
        return Redriven(task_id, redriven=False, code="unknown_capability", reason=reason)
    run_id = ended.live.run_id
    if run_id and (stopped := runs.refusal(state, key[0], run_id)) is not None:
        return Redriven(task_id, redriven=False, code="run_ended", reason=stopped)
    if command.dry_run:
        return Redriven(task_id, redriven=False, code="dry_run")
    refusal = saturated(state, queue, ended.live.tenant, share=REDRIVE_SHARE if command.paced else 1.0)
    if refusal is not None:
        queue.totals.refused += 1
        state.queue_changed(queue)
        return Redriven(
            task_id, redriven=False, code="saturated", reason=SATURATED, retry_after_s=refusal.retry_after_s
        )
    _revive(state, queue, ended)
    how = RedriveRow(command.operation, state.now)
    state.loaded.redriven[task_id] = state.out.redriven[ended.live.seq] = how
    return Redriven(task_id, redriven=True)


def purge(state: "State", command: Purge) -> list[Purged]:
    """Remove dead tasks with all that belongs to them; an idempotency key of theirs is free again."""
    return [_purge_one(state, command, task_id) for task_id in command.task_ids]


def _purge_one(state: "State", command: Purge, task_id: str) -> Purged:
    key = (command.namespace, command.capability)
    live = state.tasks.get(seq_of(task_id) or 0)
    if live is not None and live.id == task_id and live.queue.key == key:
        return Purged(task_id, purged=False, code="not_dead", reason=f"it is {live.state.value}")
    ended = state.loaded.ended.get(task_id)
    if ended is None or (ended.live.namespace, ended.live.capability) != key:
        return Purged(task_id, purged=False, code="unknown_task", reason="no such task in this queue")
    if ended.state is not TaskState.DEAD or ended.live.seq in state.out.ended:
        return Purged(task_id, purged=False, code="not_dead", reason=f"it is {ended.state.value}")
    if command.dry_run:
        return Purged(task_id, purged=False, code="dry_run")
    seq = ended.live.seq
    del state.loaded.ended[task_id]
    state.loaded.purge = [row for row in state.loaded.purge if row.seq != seq]
    state.out.purged.append(PurgedRow(seq, task_id, *key, ended.state))
    queue = state.queues.get(key)
    if queue is not None:
        queue.dead -= 1
        queue.totals.purged += 1
        state.out.totals.add(queue)
        state.queue_changed(queue)
        if not queue.configured and not queue.holds_tasks:
            forget_queue(state, queue)
    return Purged(task_id, purged=True)


def _did(state: "State", command: Redrive, task_id: str) -> bool:
    """Say whether this redrive brought the task back before: a repeated call gets the answer of the first."""
    last = state.loaded.redriven.get(task_id)
    return last is not None and bool(command.operation) and last.operation == command.operation


def _revive(state: "State", queue: "Queue", ended: EndedRow) -> None:
    row = task_from(ended.live, queue)
    row.failures = row.reclaims = row.releases = row.poison = 0
    row.suspect = row.cancel = False
    row.due_at = state.now
    if row.expires_at is not None:  # its ttl starts anew, or it would expire at once
        last = state.loaded.redriven.get(row.id)
        row.expires_at += state.now - (last.at if last is not None else row.accepted_at)
        watch_expiry(state, row)
    state.tasks[row.seq] = row
    del state.loaded.ended[row.id]
    queue.dead -= 1
    if row.run_id:
        runs.joined(state, row, redriven=True)
    put_back(state, row, backing_off=False)
    state.out.revived.append(row)
    queue.totals.redriven += 1
    state.out.totals.add(queue)
    state.out.record(row, state.now, "redriven", None, None)
