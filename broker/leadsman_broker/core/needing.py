"""Which rows of the store the commands of a step must see."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leadsman_broker.core import commands as c
from leadsman_broker.core.idempotency import key_of
from leadsman_broker.core.ids import parse_token, seq_of
from leadsman_broker.core.rows import Needs
from leadsman_broker.core.settlements import follow_ups

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def add_needs(state: "State", command: c.Command, needs: Needs) -> None:
    """Add what a command must see."""
    add = _NEEDS.get(type(command))
    if add is not None:
        add(state, command, needs)


def _enqueue(state: "State", command: c.Enqueue, needs: Needs) -> None:
    for task in command.tasks:
        if task.idempotency_key is not None or task.run_id:
            _task(state, needs, command.namespace, task)


def _ack(state: "State", command: c.Ack, needs: Needs) -> None:
    _attempt(state, needs, command.token)
    if command.tasks:
        _follow_ups(state, needs, command)


def _settlement(state: "State", command: c.Nack | c.Release, needs: Needs) -> None:
    _attempt(state, needs, command.token)


def _heartbeat(state: "State", command: c.Heartbeat, needs: Needs) -> None:
    for beat in command.leases:
        if beat.usage is not None:
            _attempt(state, needs, beat.token)


def _once(_state: "State", command: c.Once, needs: Needs) -> None:
    token = parse_token(command.token)
    if token is not None:
        needs.once.add(token.task_id)


def _run_of(state: "State", command: c.PutRun | c.CancelRun, needs: Needs) -> None:
    _run(state, needs, command.namespace, command.run_id)


def _cancel(state: "State", command: c.Cancel, needs: Needs) -> None:
    if not _is_live(state, command.task_id):
        needs.ended.add(command.task_id)


def _dead(state: "State", command: c.Redrive | c.Purge, needs: Needs) -> None:
    needs.ended.update(task_id for task_id in command.task_ids if not _is_live(state, task_id))
    if isinstance(command, c.Redrive):
        needs.redriven.update(command.task_ids)


def _sweep(_state: "State", command: c.Sweep, needs: Needs) -> None:
    needs.purge_before = max(needs.purge_before, command.before)
    needs.purge_limit = max(needs.purge_limit, command.limit)


_NEEDS: dict[type, Callable[["State", Any, Needs], None]] = {
    c.Enqueue: _enqueue,
    c.Ack: _ack,
    c.Nack: _settlement,
    c.Release: _settlement,
    c.Heartbeat: _heartbeat,
    c.Once: _once,
    c.PutRun: _run_of,
    c.CancelRun: _run_of,
    c.Cancel: _cancel,
    c.Redrive: _dead,
    c.Purge: _dead,
    c.Sweep: _sweep,
}


def _is_live(state: "State", task_id: str) -> bool:
    row = state.tasks.get(seq_of(task_id) or 0)
    return row is not None and row.id == task_id


def _task(state: "State", needs: Needs, namespace: str, task: c.NewTask) -> None:
    key = key_of(namespace, task)
    if key is not None:
        needs.keys.add(key)
    if task.run_id:
        _run(state, needs, namespace, task.run_id)


def _follow_ups(state: "State", needs: Needs, command: c.Ack) -> None:
    """Ask for the keys as they will be: a tenant that a task has from its parent is part of them."""
    token = parse_token(command.token)
    parent = state.tasks.get(token.seq) if token is not None else None
    if parent is not None:
        for task in follow_ups(state, parent, command):
            _task(state, needs, command.namespace, task)


def _run(state: "State", needs: Needs, namespace: str, run_id: str) -> None:
    if (namespace, run_id) not in state.runs:
        needs.runs.add((namespace, run_id))


def _attempt(state: "State", needs: Needs, text: str) -> None:
    """Ask for what the store knows of an attempt that is over, and of its task if that is over too."""
    if text in state.held:
        return
    token = parse_token(text)
    if token is None:
        return
    row = state.tasks.get(token.seq)
    if row is None or row.id != token.task_id:
        needs.ended.add(token.task_id)
    elif row.lease is not None and row.epoch == token.epoch:
        return
    needs.attempts.add((token.seq, token.epoch))
