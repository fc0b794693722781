"""Admission: what may enter a queue. Once accepted, a task is owed a result; so the place to say no is here."""

from math import ceil
from typing import TYPE_CHECKING

from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import budgets, runs
from leadsman_broker.core.commands import Enqueue, NewTask
from leadsman_broker.core.idempotency import key_of, known, remember
from leadsman_broker.core.ids import new_task_id
from leadsman_broker.core.placement import admit
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.results import Accepted, Refused, Saturated, SubmitOutcome
from leadsman_broker.core.shedding import choose, drop
from leadsman_broker.core.tasks import TaskRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State

INTERACTIVE_PRIORITY = 5
BACKGROUND_PRIORITY = 0


def enqueue(state: "State", command: Enqueue) -> list[SubmitOutcome]:
    """Accept or refuse each task of a batch, in order; one refusal does not touch the others."""
    return [_submit(state, command.namespace, task) for task in command.tasks]


def follow_up(state: "State", namespace: str, tasks: tuple[NewTask, ...]) -> list[SubmitOutcome]:
    """Accept the tasks that follow one that is done; never refused for depth: finished work must be acked."""
    return [_submit(state, namespace, task, always=True) for task in tasks]


def unfit(state: "State", namespace: str, task: NewTask) -> Accepted | Refused | None:
    """Answer for a task that is not to be inserted, whatever room there is: refused, or known by its key."""
    queue = state.queues.get((namespace, task.capability))
    if queue is None or not queue.configured:
        return Refused("unknown_capability", f"namespace {namespace} has no capability {task.capability}")
    limit = queue.rules.max_payload_bytes
    if len(task.payload) > limit:
        return Refused("payload_too_large", f"{len(task.payload)} bytes of JSON, at most {limit} are accepted")
    key = key_of(namespace, task)
    answer = known(state, key, task) if key is not None else None
    if answer is None and (why := budgets.excessive(queue, task.tenant, task.estimate)) is not None:
        return Refused("estimate_too_large", why)
    return answer


def saturated(state: "State", queue: Queue, tenant: str, *, share: float = 1.0) -> Saturated | None:
    """Say no when the depth before the insert is over the limit (the seed's test), or the tenant's is.

    `share`: of the limit that counts for this insert.
    """
    rules = queue.rules
    over = queue.depth - int(rules.max_depth * share)
    if tenant and rules.max_depth_per_tenant is not None:
        over = max(over, queue.line.tenant(tenant).depth - rules.max_depth_per_tenant)
    if over <= 0:
        return None
    return Saturated(retry_after_s=_retry_after(queue, over, state.now))


def _retry_after(queue: Queue, over: int, now: float) -> int:
    """Return how long the excess takes to drain, 1..retryAfterSeconds; the limit while the rate is unknown."""
    limit = queue.rules.retry_after_seconds
    rate = queue.drain.per_second(now)
    return limit if not rate else max(1, min(limit, ceil(over / rate)))


def _submit(state: "State", namespace: str, task: NewTask, *, always: bool = False) -> SubmitOutcome:
    answer = unfit(state, namespace, task)
    if answer is not None:
        return answer if isinstance(answer, Accepted) else _refuse(state, namespace, task, answer)
    queue = state.queues[namespace, task.capability]
    rules = queue.rules
    if task.run_id and (ended := runs.refusal(state, namespace, task.run_id)) is not None:
        return _refuse(state, namespace, task, Refused("run_ended", ended))
    priority = task.priority
    if priority is None:
        priority = INTERACTIVE_PRIORITY if task.task_class is TaskClass.INTERACTIVE else BACKGROUND_PRIORITY
    shed: list[TaskRow] = []
    refusal = saturated(state, queue, task.tenant)
    if refusal is not None:
        state.queue_changed(queue)
        if always:
            queue.totals.over_limit += 1
        elif not (shed := choose(state, queue, task.tenant, priority)):
            queue.totals.refused += 1
            queue.refusals["saturated"] += 1
            return refusal
    if task.run_id and (over := runs.refusal(state, namespace, task.run_id, joining=True)) is not None:
        if shed and queue.sheddable is not None:
            queue.sheddable.put_back(shed)
        return _refuse(state, namespace, task, Refused("run_ended", over))
    drop(state, shed)

    now = state.now
    seq = state.next_seq
    state.next_seq = seq + 1
    row = TaskRow(
        seq,
        new_task_id(seq, state.rand),
        queue,
        task.tenant,
        task.task_class,
        priority,
        task.idempotency_key is not None,
        now,
        task.max_attempts or rules.max_attempts,
        now + task.delay_seconds if task.delay_seconds else now,
        now + task.ttl_seconds if task.ttl_seconds is not None else None,
        task.run_id,
        task.estimate,
    )
    admit(state, row)
    queue.totals.accepted += 1
    state.out.totals.add(queue)
    state.out.accept(row, task)
    if (key := key_of(namespace, task)) is not None:
        remember(state, key, row.id, task.fingerprint)
    return Accepted(row.id, row.state)


def _refuse(state: "State", namespace: str, task: NewTask, refused: Refused) -> Refused:
    """Count a refusal on its queue; one for a queue that does not exist would make a label of any name."""
    queue = state.queues.get((namespace, task.capability))
    if queue is not None:
        queue.refusals[refused.code] += 1
    return refused
