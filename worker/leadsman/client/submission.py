"""Preparing tasks for the wire: keys, sizes, batches. No I/O."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from leadsman.encoding import encode, normalised
from leadsman.errors import InvalidValueError
from leadsman.tracing import current_traceparent
from leadsman.wire.base import MAX_BATCH
from leadsman.wire.tasks import TaskClass, TaskSubmit

M = TypeVar("M", bound=BaseModel)

MAX_BATCH_BYTES = 4_000_000
"""A batch is closed before it grows beyond this; one larger task still goes, alone."""

_PATTERNS = {
    "capability": "must be lower-case letters, digits, '-' and '.', as a name in Kubernetes",
    "name": "must be letters, digits and _ . : -",
    "run_id": "must be letters, digits, - and _",
    "tenant": "must not have control characters",
    "reason": "must not have control characters",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task that is ready to send, any number of times, without ever being doubled."""

    index: int
    """Its place in what the caller gave."""
    task: TaskSubmit
    """With an idempotency key."""
    encoded: str
    own_key: bool
    """The caller gave none, so `duplicate` in an answer only means that an earlier answer was lost."""


def make_task(
    capability: str,
    payload: Any,
    *,
    name: str,
    key: str | None,
    tenant: str,
    task_class: TaskClass | str,
    priority: int | None,
    delay_seconds: float,
    ttl_seconds: float | None,
    max_attempts: int | None,
    run_id: str | None = None,
) -> TaskSubmit:
    """Return the task, or raise InvalidValueError that names the first field at fault."""
    fields: dict[str, Any] = {
        "capability": capability,
        "payload": normalised(payload, "the payload"),
        "name": name,
        "idempotency_key": key,
        "tenant": tenant,
        "class": task_class,
        "priority": priority,
        "delay_seconds": delay_seconds,
        "ttl_seconds": ttl_seconds,
        "max_attempts": max_attempts,
        "run_id": run_id,
    }
    return checked(fields, "the task")


def checked(fields: Any, what: str) -> TaskSubmit:
    """Validate one task as it came from elsewhere. Raises InvalidValueError, its text beginning with `what`."""
    return fitting(TaskSubmit, fields, what)


def fitting(model: type[M], fields: Any, what: str) -> M:
    """Build a model of the wire. Raises InvalidValueError that names the first field at fault, after `what`."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        why = _PATTERNS.get(place, first["msg"]) if first["type"] == "string_pattern_mismatch" else first["msg"]
        raise InvalidValueError(f"{what}: {f'{place}: ' if place else ''}{why}") from error


def prepare(tasks: Iterable[TaskSubmit]) -> list[Prepared]:
    """Give every task a key, the caller's trace and its bytes. Raises InvalidValueError before anything is sent."""
    prepared = []
    traceparent = current_traceparent()
    for index, task in enumerate(tasks):
        own = task.idempotency_key is None
        filled: dict[str, Any] = {"idempotency_key": uuid.uuid4().hex} if own else {}
        if traceparent is not None and task.traceparent is None:
            filled["traceparent"] = traceparent
        keyed = task.model_copy(update=filled) if filled else task
        fields = keyed.model_dump(by_alias=True, exclude_defaults=True)
        prepared.append(Prepared(index, keyed, encode(fields, f"task {index}"), own))
    return prepared


def batches(prepared: Sequence[Prepared]) -> Iterator[list[Prepared]]:
    """Cut into requests that the broker takes."""
    batch: list[Prepared] = []
    size = 0
    for item in prepared:
        if batch and (len(batch) == MAX_BATCH or size + len(item.encoded) > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item.encoded)
    if batch:
        yield batch


def body(batch: Sequence[Prepared]) -> bytes:
    """Return the request's bytes; the same tasks are encoded once however often they are sent."""
    return f'{{"tasks":[{",".join(item.encoded for item in batch)}]}}'.encode()
