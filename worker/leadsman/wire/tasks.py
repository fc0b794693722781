"""Submitting tasks and reading what became of them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from leadsman.wire.base import MAX_BATCH, HandlerName, Name, Reply, Request, RunId, Seconds, TaskId, Tenant
from leadsman.wire.costs import Estimate, UsageView


class TaskState(StrEnum):
    """Where a task stands. `completed`, `dead`, `expired`, `cancelled` and `shed` are final."""

    DELAYED = "delayed"
    READY = "ready"
    LEASED = "leased"
    COMPLETED = "completed"
    DEAD = "dead"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SHED = "shed"
    """Dropped from a full queue for a task of higher priority, as the capability's `onFull` says."""


class TaskClass(StrEnum):
    """Whether a person waits for the task. It sets the default priority and never orders by itself."""

    INTERACTIVE = "interactive"
    BACKGROUND = "background"


IdempotencyKey = Annotated[str, Field(min_length=1, max_length=256)]
TraceParent = Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f-]+$")]


class TaskSubmit(Request):
    """One task to enqueue."""

    capability: Name
    name: HandlerName = "default"
    payload: JsonValue = None
    tenant: Tenant = ""
    task_class: Annotated[TaskClass, Field(alias="class")] = TaskClass.BACKGROUND
    priority: Annotated[int, Field(ge=0, le=9)] | None = None
    """Higher first. Default 5 for interactive, 0 for background."""
    idempotency_key: IdempotencyKey | None = None
    delay_seconds: Seconds = 0.0
    ttl_seconds: Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False)] | None = None
    """From accept; checked while queued and at lease. Never stops a leased task."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    traceparent: TraceParent | None = None
    run_id: RunId | None = None
    """The run it belongs to, created with its first task. A follow-up task belongs to its parent's."""
    estimate: Estimate | None = None
    """What an attempt may use, where it is not what the capability says."""


class SubmitRequest(Request):
    """A batch; results come back in the same order."""

    tasks: Annotated[list[TaskSubmit], Field(min_length=1, max_length=MAX_BATCH)]


class SubmitResult(Reply):
    """The answer for one task.

    Accepted: `id`, `state`, and `duplicate` when the idempotency key was already known. Refused for depth: exactly
    `accepted`, `reason` ("pool saturated") and `retry_after_s`. Refused for any other cause: `code` and `reason`.
    """

    accepted: bool
    id: TaskId | None = None
    state: TaskState | None = None
    duplicate: bool | None = None
    code: str | None = None
    reason: str | None = None
    retry_after_s: int | None = None


class SubmitReply(Reply):
    """Ordered results of a batch. HTTP 429 with `Retry-After` when every item was refused for depth."""

    results: list[SubmitResult]


class TaskError(Request):
    """Why an attempt failed, as the worker saw it."""

    type: Annotated[str, Field(min_length=1, max_length=200)]
    message: Annotated[str, Field(max_length=4096)] = ""


class AttemptCounts(Reply):
    """The four counters of a task. `failures + reclaims` spend `max_attempts`; releases do not."""

    deliveries: int = 0
    failures: int = 0
    reclaims: int = 0
    releases: int = 0


class HistoryEntry(Reply):
    """One thing that happened to a task, newest last; of what went wrong the newest 50 are kept."""

    at: float
    """Broker wall clock, seconds since the epoch, for people to read."""
    event: str
    epoch: int
    worker: str | None = None
    detail: str | None = None


class TaskView(Reply):
    """A task as the broker knows it."""

    id: TaskId
    namespace: Name
    capability: Name
    name: HandlerName
    state: TaskState
    task_class: Annotated[TaskClass, Field(alias="class")]
    priority: int
    tenant: str
    run_id: RunId | None = None
    idempotency_key: str | None = None
    accepted_at: float
    due_at: float | None = None
    settled_at: float | None = None
    epoch: int
    attempts: AttemptCounts
    max_attempts: int
    usage: UsageView | None = None
    """Of all its attempts, superseded ones included; absent when none reported any, and in lists."""
    payload: JsonValue = None
    """Only when asked for, and while the task is not yet over or is dead."""
    result: JsonValue = None
    error: TaskError | None = None
    reason: str | None = None
    """Why it is dead, expired, cancelled or shed."""
    worker: str | None = None
    """Who holds it, while leased."""
    history: list[HistoryEntry] = []
    """Empty in lists."""


class TaskList(Reply):
    """A page of tasks in order of acceptance; `next_cursor` is absent on the last page."""

    items: list[TaskView]
    next_cursor: str | None = None
