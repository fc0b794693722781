"""Idempotency keys: (namespace, capability, tenant, key) stands for one task until a day after its end."""

from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskState
from leadsman_broker.core.commands import NewTask
from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.results import Accepted, Refused
from leadsman_broker.core.rows import KeyId, KeyRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def key_of(namespace: str, task: NewTask) -> KeyId | None:
    """Return the full key of a new task, if it has one."""
    if task.idempotency_key is None:
        return None
    return (namespace, task.capability, task.tenant, task.idempotency_key)


def known(state: "State", key: KeyId, task: NewTask) -> Accepted | Refused | None:
    """Answer for a key that stands for a task already; None when it is free.

    The key is free again once its task is gone, or ended longer ago than keys are kept.
    """
    row = state.loaded.keys.get(key)
    if row is None:
        return None
    standing = _state_of(state, row)
    if standing is None:
        return None
    if row.fingerprint != task.fingerprint:
        return Refused("idempotency_mismatch", f"the key stands for task {row.task_id} with another payload")
    return Accepted(row.task_id, standing, duplicate=True)


def remember(state: "State", key: KeyId, task_id: str, fingerprint: bytes) -> None:
    """Let later commands of the same step see a key that was just taken."""
    state.loaded.keys[key] = KeyRow(task_id, fingerprint, None, None)


def _state_of(state: "State", row: KeyRow) -> TaskState | None:
    live = state.tasks.get(seq_of(row.task_id) or 0)
    if live is not None and live.id == row.task_id:
        return live.state
    ended = state.loaded.ended.get(row.task_id)
    ended_at = ended.ended_at if ended is not None else row.ended_at
    if ended_at is None or state.now >= ended_at + state.settings.key_retention_seconds:
        return None
    return ended.state if ended is not None else row.state
