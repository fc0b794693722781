"""Lease calls: who may wait for work, and what a repeated call gets back."""

from typing import TYPE_CHECKING

from leadsman.wire.leases import WorkerState
from leadsman_broker.core.commands import Abandon, Lease
from leadsman_broker.core.leases import attempt_end, describe, give_back_missing, reclaim, renew
from leadsman_broker.core.results import Answer
from leadsman_broker.core.settlements import leased_task
from leadsman_broker.core.waiting import Call, end, park, withdraw
from leadsman_broker.core.workers import WorkerRow, hear

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def lease(state: "State", command: Lease) -> None:
    """Park a lease call; `dispatch` answers it. A worker that may get nothing is answered at once.

    Repeating an `attempt_id` that was given leases returns those still held, renewed, with the same tokens.
    """
    worker = hear(state, command.worker, command.capabilities, command.slots)
    if worker.leases:
        held = {seq for text in command.held if (seq := _held_seq(state, worker, text)) is not None}
        give_back_missing(state, worker, held, command.attempt_id)
    if command.attempt_id == worker.answered:
        _repeat(state, worker, command)
        return
    call = Call(command, worker, state.now)
    if worker.state is not WorkerState.ACTIVE:
        if worker.call is not None:
            end(state, worker.call)
        state.answers.append(Answer(command.call, worker.state))
        return
    park(state, call)


def abandon(state: "State", command: Abandon) -> None:
    """Let go of a parked call whose caller is gone."""
    call = state.calls.get(command.call)
    if call is not None:
        withdraw(state, call)


def _repeat(state: "State", worker: WorkerRow, command: Lease) -> None:
    if worker.call is not None:
        end(state, worker.call)
    granted = []
    for seq in sorted(worker.leases):
        row = state.tasks[seq]
        lease = row.lease
        if lease is None or lease.attempt_id != command.attempt_id:
            continue
        if state.now >= attempt_end(row, lease):
            reclaim(state, row)  # else the reply would give what the timers of this step take
            continue
        lease.sent_at = state.now
        renew(state, row, lease)
        granted.append(describe(state, row, lease))
    state.answers.append(Answer(command.call, worker.state, tuple(granted)))


def _held_seq(state: "State", worker: WorkerRow, token: str) -> int | None:
    row = leased_task(state, worker.key[0], token)
    return row.seq if row is not None and row.lease is not None and row.lease.worker is worker else None
