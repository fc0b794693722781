"""Ack, nack and release: how a lease ends by the worker's own word.

A token is good for one settlement. The last one of a task is kept with its answer, so that a call repeated after a
lost reply gets that answer, and another kind of call with the same token is told so. Nothing ever answers success
without having had its effect.
"""

from typing import TYPE_CHECKING

from leadsman.wire.capabilities import TenantFrom
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import ledger
from leadsman_broker.core.admission import follow_up, unfit
from leadsman_broker.core.attempts import EndReason, count_failure, count_release, retry_delay
from leadsman_broker.core.commands import Ack, Nack, NewTask, Release
from leadsman_broker.core.idempotency import key_of
from leadsman_broker.core.ids import Token, parse_token
from leadsman_broker.core.placement import finish, requeue
from leadsman_broker.core.results import Accepted, Refused, Saturated, Settled, SubmitOutcome
from leadsman_broker.core.rows import FollowUp, KeyId, Standing
from leadsman_broker.core.tasks import Settlement, TaskRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State

ACK = "ack"
NACK = "nack"
RELEASE = "release"

LOST = Settled(ok=False, code="lease_lost")
UNKNOWN = Settled(ok=False, code="unknown_task")
DONE = Settled(ok=True, state=TaskState.COMPLETED)


def ack(state: "State", command: Ack) -> Settled:
    """Complete a task: while leased, or late, after a reclaim and before anyone else has it."""
    found = _find(state, command, ACK)
    if isinstance(found, Settled):
        return found
    limit = state.settings.max_result_bytes
    if command.result is not None and len(command.result) > limit:
        return _too_large("result_too_large", len(command.result), limit)
    row = found
    tasks = follow_ups(state, row, command)
    refused = _first_refused(state, command.namespace, tasks) if tasks else None
    if refused is not None:
        detail = f"{refused.code}: {refused.reason}; nothing is done"
        return Settled(ok=False, code="follow_up_refused", detail=detail)
    late = row.lease is None
    if row.lease is not None:
        times = row.queue.service_times
        if not times.unsaved:
            flush_at = state.now + state.settings.service_times_flush_seconds
            state.alarms.sooner(("service", row.queue.key), flush_at)
        times.add(state.now - row.lease.started_at)
        ledger.close(state, row, ledger.COMPLETED)
    else:
        ledger.won_late(state, row)
    row.settled = Settlement(row.epoch, ACK, TaskState.COMPLETED)
    # Before the end of their parent, which may be the last task of its run.
    followed = tuple(follow_up(state, command.namespace, tasks)) if tasks else None
    kept = _kept(followed) if followed is not None else None
    finish(state, row, TaskState.COMPLETED, result=command.result, late=late, follow_ups=kept)
    if late or followed is not None:
        return Settled(ok=True, state=TaskState.COMPLETED, late=late, tasks=followed)
    return DONE


def nack(state: "State", command: Nack) -> Settled:
    """Count a failure; the task waits for its next attempt, or is dead."""
    found = _find(state, command, NACK)
    if isinstance(found, Settled):
        return found
    row = found
    refusal = _checkpoint(state, row, command.checkpoint)
    if refusal is not None:
        return refusal
    ledger.close(state, row, ledger.FAILED)
    row.queue.totals.failed += 1
    state.out.totals.add(row.queue)
    dead = count_failure(row, retry=command.retry)
    error = (command.error_type, command.error_message)
    state.out.record(row, state.now, "failed", _holder(row), ": ".join(part for part in error if part))
    if row.cancel:
        return _settle_end(state, row, NACK, EndReason.CANCELLED, error)
    if dead is not None:
        return _settle_end(state, row, NACK, dead, error)
    delay = retry_delay(row, state.settings, state.rand, at_least=command.retry_after_seconds or 0.0)
    return _settle_requeue(state, row, NACK, delay)


def release(state: "State", command: Release) -> Settled:
    """Give a task back unharmed. Free, but from the second time on it waits a little, and not for ever."""
    found = _find(state, command, RELEASE)
    if isinstance(found, Settled):
        return found
    row = found
    refusal = _checkpoint(state, row, command.checkpoint)
    if refusal is not None:
        return refusal
    ledger.close(state, row, ledger.RELEASED)
    dead = count_release(row, state.settings)
    state.out.record(row, state.now, "released", _holder(row), command.reason or None)
    if row.cancel:
        return _settle_end(state, row, RELEASE, EndReason.CANCELLED)
    if dead is not None:
        return _settle_end(state, row, RELEASE, dead)
    gap = state.settings.release_gap_seconds if row.releases > 1 else 0.0
    return _settle_requeue(state, row, RELEASE, max(command.delay_seconds, gap))


def follow_ups(state: "State", parent: TaskRow, command: Ack) -> tuple[NewTask, ...]:
    """Return what an ack submits, as it is submitted: with what it has from its parent."""
    return tuple([_of_parent(state, parent, task) for task in command.tasks]) if command.tasks else ()


def save_checkpoint(state: "State", row: TaskRow, checkpoint: bytes) -> None:
    """Keep a checkpoint for the next attempt. It shows progress: the count towards poison starts anew."""
    state.out.checkpoints[row.seq] = checkpoint
    if row.poison:
        row.poison = 0
        state.out.touched[row.seq] = row


def leased_task(state: "State", namespace: str, token: str) -> TaskRow | None:
    """Return the task that this token holds now."""
    row = state.held.get(token)
    return row if row is not None and row.queue.key[0] == namespace else None


def newest_of(state: "State", namespace: str, token: Token) -> TaskRow | None:
    """Return the live task whose newest delivery this token names, leased still or waiting for its next one."""
    row = state.tasks.get(token.seq)
    if row is None or row.id != token.task_id or row.queue.key[0] != namespace:
        return None
    settled = row.settled is not None and row.settled.epoch == token.epoch
    return row if (row.epoch, row.secret) == (token.epoch, token.secret) and not settled else None


def _find(state: "State", command: Ack | Nack | Release, op: str) -> TaskRow | Settled:
    """Return the task that a token may settle, or the answer if it may not; book the usage in either case."""
    namespace = command.namespace
    row = leased_task(state, namespace, command.token)
    if row is not None:
        if command.usage is not None:
            ledger.report(state, row, command.usage)
        return row
    token = parse_token(command.token)
    if token is None:
        return UNKNOWN
    found = _settleable(state, namespace, token, op)
    if command.usage is not None:
        ledger.report_late(state, namespace, token, command.usage)
    return found


def _settleable(state: "State", namespace: str, token: Token, op: str) -> TaskRow | Settled:
    """Answer for a token that holds nothing now."""
    row = state.tasks.get(token.seq)
    if row is None or row.id != token.task_id:
        ended = state.loaded.ended.get(token.task_id)
        if ended is None or ended.live.namespace != namespace or ended.visible_until <= state.now:
            return UNKNOWN
        standing = ended.live.standing
        if standing.settled_state is None or standing.settled_epoch != token.epoch or _forged(token, standing):
            return LOST
        settled = Settlement(standing.settled_epoch, standing.settled_op, standing.settled_state)
        return _repeat(settled, op, late=ended.late, tasks=_answers(ended.follow_ups))
    if row.queue.key[0] != namespace:
        return UNKNOWN
    if _forged(token, row):
        return LOST
    if row.settled is not None and row.settled.epoch == token.epoch:
        return _repeat(row.settled, op, late=False)
    return row if token.epoch == row.epoch and op == ACK else LOST


def _forged(token: Token, task: TaskRow | Standing) -> bool:
    """Say whether a token names the newest delivery without knowing its secret; older secrets are not kept."""
    return token.epoch == task.epoch and token.secret != task.secret


def _repeat(settled: Settlement, op: str, *, late: bool, tasks: tuple[SubmitOutcome, ...] | None = None) -> Settled:
    if settled.op == op:
        return Settled(ok=True, state=settled.state, late=late, tasks=tasks)
    return Settled(
        ok=False,
        state=settled.state,
        code="already_settled",
        detail=f"this lease ended with {settled.op}; the task became {settled.state.value}",
    )


def _kept(outcomes: tuple[SubmitOutcome, ...]) -> tuple[FollowUp, ...]:
    """Return the answers for follow-up tasks as stored; never for want of room, which they are not refused for."""
    return tuple(
        FollowUp(one.id, one.state, one.duplicate)
        if isinstance(one, Accepted)
        else FollowUp(None, None, code=one.code, reason=one.reason)
        for one in outcomes
        if not isinstance(one, Saturated)
    )


def _answers(follow_ups: tuple[FollowUp, ...] | None) -> tuple[SubmitOutcome, ...] | None:
    if follow_ups is None:
        return None
    return tuple(
        Accepted(one.id, one.state, one.duplicate)
        if one.id is not None and one.state is not None
        else Refused(one.code or "", one.reason or "")
        for one in follow_ups
    )


def _checkpoint(state: "State", row: TaskRow, checkpoint: bytes | None) -> Settled | None:
    if checkpoint is None:
        return None
    limit = state.settings.max_checkpoint_bytes
    if len(checkpoint) > limit:
        return _too_large("checkpoint_too_large", len(checkpoint), limit)
    save_checkpoint(state, row, checkpoint)
    return None


def _too_large(code: str, size: int, limit: int) -> Settled:
    return Settled(
        ok=False, code=code, detail=f"{size} bytes of JSON, at most {limit} are kept; the lease still holds"
    )


def _first_refused(state: "State", namespace: str, tasks: tuple[NewTask, ...]) -> Refused | None:
    fingerprints: dict[KeyId, bytes] = {}
    for task in tasks:
        answer = unfit(state, namespace, task)
        if isinstance(answer, Refused):
            return answer
        key = key_of(namespace, task)
        if key is not None and fingerprints.setdefault(key, task.fingerprint) != task.fingerprint:
            return Refused("idempotency_mismatch", f"two follow-ups name the key {key[-1]} with different payloads")
    return None


def _of_parent(state: "State", parent: TaskRow, task: NewTask) -> NewTask:
    """Return a follow-up task with what it has from its parent: run and tenant, where it names none itself.

    Where the tenant is who submits, the worker speaks for the parent's.
    """
    queue = state.queues.get((parent.queue.key[0], task.capability))
    identified = queue is not None and queue.rules.tenant_from is TenantFrom.IDENTITY
    tenant = parent.tenant if identified else task.tenant or parent.tenant
    return task._replace(run_id=task.run_id or parent.run_id, tenant=tenant)


def _settle_end(
    state: "State", row: TaskRow, op: str, reason: EndReason, error: tuple[str, str] | None = None
) -> Settled:
    outcome = TaskState.CANCELLED if reason is EndReason.CANCELLED else TaskState.DEAD
    row.settled = Settlement(row.epoch, op, outcome)
    finish(state, row, outcome, reason=reason, error=error)
    return Settled(ok=True, state=outcome)


def _settle_requeue(state: "State", row: TaskRow, op: str, delay: float) -> Settled:
    outcome = TaskState.DELAYED if delay > 0 else TaskState.READY
    if row.expires_at is not None and row.expires_at <= state.now:
        outcome = TaskState.EXPIRED
    row.settled = Settlement(row.epoch, op, outcome)
    requeue(state, row, delay=delay)
    return Settled(ok=True, state=outcome)


def _holder(row: TaskRow) -> str | None:
    return row.lease.worker.id if row.lease is not None else None
