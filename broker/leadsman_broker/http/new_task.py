"""From a task as a caller sends it to the core's form of it."""

from pydantic_core import to_json

from leadsman.wire.tasks import TaskSubmit
from leadsman_broker.core.commands import NewTask
from leadsman_broker.core.fingerprint import fingerprint
from leadsman_broker.core.making import make
from leadsman_broker.core.usage import Estimate


def new_task(task: TaskSubmit, tenant: str) -> NewTask:
    """Return the core's form of a task to enqueue."""
    key = task.idempotency_key
    estimate = task.estimate
    return make(
        NewTask,
        (
            task.capability,
            to_json(task.payload),
            task.name,
            tenant,
            task.task_class,
            task.priority,
            key,
            b"" if key is None else fingerprint(task.payload),
            task.delay_seconds,
            task.ttl_seconds,
            task.max_attempts,
            task.traceparent,
            task.run_id or "",
            None if estimate is None else Estimate(estimate.tokens, estimate.cost_micros),
        ),
    )
