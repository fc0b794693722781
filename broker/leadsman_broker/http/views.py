"""From what the core and the store say to what travels."""

from collections.abc import Iterable
from dataclasses import fields

from pydantic_core import from_json, to_json

from leadsman.wire.capabilities import PauseReply
from leadsman.wire.costs import RemainingBudget, UsageView
from leadsman.wire.dead_letters import RedriveResult
from leadsman.wire.explanations import TaskExplanation
from leadsman.wire.leases import HeartbeatReply, HeartbeatResult
from leadsman.wire.tasks import (
    AttemptCounts,
    TaskError,
    TaskState,
    TaskView,
)
from leadsman.wire.workers import CordonResult, FenceResult
from leadsman_broker.core.explaining import Standing
from leadsman_broker.core.results import (
    Accepted,
    Cordoned,
    Fenced,
    HeartbeatOutcome,
    Onced,
    Paused,
    Redriven,
    Saturated,
    Settled,
    SubmitOutcome,
)
from leadsman_broker.http.history import history_of
from leadsman_broker.store.interface import TaskRecord


def submit_reply(outcomes: Iterable[SubmitOutcome]) -> bytes:
    """Return the JSON of a `SubmitReply`.

    Written from plain values, as is `settle_reply`: a thousand models that are made only to be written cost more
    than all the rest of the reply.
    """
    return to_json({"results": [_submit_result(outcome) for outcome in outcomes]})


def _submit_result(outcome: SubmitOutcome) -> dict[str, str | int]:
    if isinstance(outcome, Accepted):
        if outcome.duplicate:
            return {"accepted": True, "id": outcome.id, "state": outcome.state.value, "duplicate": True}
        return {"accepted": True, "id": outcome.id, "state": outcome.state.value}
    if isinstance(outcome, Saturated):
        return outcome.as_dict()
    return {"accepted": False, "code": outcome.code, "reason": outcome.reason}


def settle_reply(outcomes: Iterable[Settled]) -> bytes:
    """Return the JSON of a `SettleReply`."""
    return to_json({"results": [_settle_result(settled) for settled in outcomes]})


def _settle_result(settled: Settled) -> dict[str, object]:
    result: dict[str, object] = {"ok": settled.ok}
    if settled.state is not None:
        result["state"] = settled.state.value
    if settled.code is not None:
        result["code"] = settled.code
    if settled.detail is not None:
        result["detail"] = settled.detail
    if settled.late:
        result["late"] = True
    if settled.tasks is not None:
        result["tasks"] = [_submit_result(outcome) for outcome in settled.tasks]
    return result


def redrive_result(redriven: Redriven) -> RedriveResult:
    """Return the answer for one redriven id."""
    return RedriveResult(
        id=redriven.id,
        redriven=redriven.redriven,
        code=redriven.code,
        reason=redriven.reason,
        retry_after_s=redriven.retry_after_s,
    )


def fence_result(fenced: Fenced) -> FenceResult:
    """Return the answer for one pod."""
    return FenceResult(
        pod_uid=fenced.pod_uid, outcome=fenced.outcome, leases=fenced.leases, operation=fenced.operation
    )


def pause_reply(name: str, paused: Paused) -> PauseReply:
    """Return where a capability stands."""
    pause = paused.pause
    return PauseReply(
        name=name,
        paused=pause is not None,
        changed=paused.changed,
        reason=pause.reason if pause is not None else "",
        since=pause.at if pause is not None else None,
    )


def cordon_result(cordoned: Cordoned) -> CordonResult:
    """Return the answer for one pod."""
    return CordonResult(
        pod_uid=cordoned.pod_uid,
        outcome=cordoned.outcome,
        leases=cordoned.leases,
        operation=cordoned.operation,
    )


def heartbeat_reply(outcome: HeartbeatOutcome, now: float) -> HeartbeatReply:
    """Return the answer of a heartbeat, with durations counted from now."""
    return HeartbeatReply(
        worker=outcome.worker,
        leases=[
            HeartbeatResult(
                token=beat.token,
                status=beat.status,
                expires_in_seconds=max(0.0, beat.expires_at - now) if beat.expires_at else 0.0,
                remaining_budget=None if beat.remaining is None else RemainingBudget(**beat.remaining._asdict()),
            )
            for beat in outcome.leases
        ],
    )


def once_reply(onced: Onced) -> bytes:
    """Return the JSON of an `OnceReply`; the value is copied as it was stored."""
    if onced.ok:
        first = b"true" if onced.first else b"false"
        return b'{"ok":true,"first":%b,"value":%b}' % (first, onced.value or b"null")
    reply = {"ok": False, "code": onced.code, "detail": onced.detail}
    return to_json({name: value for name, value in reply.items() if value is not None})


def task_explanation(view: TaskView, standing: Standing | None) -> TaskExplanation:
    """Return why a task stands where it stands; `standing` is None when it has ended."""
    if standing is None:
        why = f": {view.reason}" if view.reason is not None else ""
        return TaskExplanation(task=view, summary=f"{view.state.value}{why}")
    return TaskExplanation(task=view, **{field.name: getattr(standing, field.name) for field in fields(standing)})


def task_view(record: TaskRecord, now: float, *, history: bool = True) -> TaskView:
    """Return a task as the broker knows it; a list shows no history."""
    live, standing, ended = record.live, record.live.standing, record.ended
    state = record.state_at(now)
    worker = None
    if ended is None and standing.lease_pod is not None:
        worker = f"{standing.lease_pod}.{standing.lease_incarnation}"
    error = None
    if record.error_type is not None:
        error = TaskError(type=record.error_type, message=record.error_message or "")
    return TaskView(
        id=live.id,
        namespace=live.namespace,
        capability=live.capability,
        name=record.name,
        state=state,
        task_class=live.task_class,
        priority=live.priority,
        tenant=live.tenant,
        run_id=live.run_id or None,
        idempotency_key=record.key,
        accepted_at=live.accepted_at,
        due_at=standing.due_at if state is TaskState.DELAYED else None,
        settled_at=None if ended is None else ended.ended_at,
        epoch=standing.epoch,
        attempts=AttemptCounts(
            deliveries=standing.epoch,
            failures=standing.failures,
            reclaims=standing.reclaims,
            releases=standing.releases,
        ),
        max_attempts=live.max_attempts,
        usage=None if record.usage is None else UsageView(**record.usage._asdict()),
        result=None if record.result is None else from_json(record.result),
        error=error,
        reason=record.reason,
        worker=worker,
        history=history_of(record) if history else [],
    )
