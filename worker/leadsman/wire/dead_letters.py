"""The dead-letter queue of a capability."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from leadsman.wire.base import MAX_BATCH, HandlerName, Moment, Reply, Request, TaskId, Tenant, WorkerPart

Cursor = Annotated[str, Field(min_length=1, max_length=18, pattern=r"^[0-9]+$")]


class DeadFilter(Request):
    """Which dead tasks of a capability; what is null does not matter. An empty filter means all."""

    error: Annotated[str, Field(max_length=200)] | None = None
    """The error's type as the worker reported it; "": none was reported, as after lost leases."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """MaxAttempts, Poison, NoRetry, ..."""
    name: HandlerName | None = None
    tenant: Tenant | None = None
    run: Annotated[str, Field(max_length=128)] | None = None
    died_after: Moment | None = None
    """From then on."""
    died_before: Moment | None = None
    """Before then."""


class _Selection(Request):
    """Some dead tasks: by id, or by a filter in steps."""

    ids: Annotated[list[TaskId], Field(min_length=1, max_length=MAX_BATCH)] | None = None
    filter: DeadFilter | None = None
    cursor: Cursor | None = None
    """With a filter: where the step before ended."""
    limit: Annotated[int, Field(ge=1, le=MAX_BATCH)] = 500
    """With a filter: tasks of one step."""
    dry_run: bool = False
    """Only say what would be done."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or a filter ({} means every dead task)")
        return self


class RedriveRequest(_Selection):
    """Put dead tasks back in their queue: attempts reset, history kept, admission respected.

    By filter it goes in steps and fills at most half of the queue's depth, so that new work has room beside it:
    repeat with `next_cursor` until there is none. Nothing is kept between the steps but the tasks themselves, so an
    interrupted redrive is continued by asking again.
    """

    operation: WorkerPart | None = None
    """The caller's name for this redrive. A repeated call with the same name gets the answer of the first, and
    brings no task back twice that has died again since."""


class RedriveResult(Reply):
    """The answer for one id.

    `code`: `unknown_task`, `not_dead`, `unknown_capability`, `run_ended`, `saturated` or `dry_run`.
    """

    id: TaskId
    redriven: bool
    code: str | None = None
    reason: str | None = None
    retry_after_s: int | None = None


class DeadGroup(Reply):
    """Dead tasks that ended for one reason with one type of error."""

    reason: str
    error: str
    """"": no error was reported."""
    tasks: int
    first_died_at: float
    last_died_at: float
    sample_id: TaskId
    """The one accepted last; read it with `GET .../tasks/{id}`."""
    sample_message: str | None = None


class RedriveReply(Reply):
    """By ids: ordered results. By filter: what this step did, with results only for tasks that it left dead."""

    results: list[RedriveResult] = []
    redriven: int = 0
    matched: int | None = None
    """Dry run: how many would be redriven."""
    next_cursor: str | None = None
    """By filter: where to go on; absent when all was looked at."""
    retry_after_s: int | None = None
    """By filter: the queue is full enough; go on at `next_cursor` after so long."""


class PurgeRequest(_Selection):
    """Remove dead tasks for good, with their history and idempotency key. By filter it needs `confirm`."""

    confirm: bool = False


class PurgeResult(Reply):
    """The answer for one id. `code`: `unknown_task`, `not_dead` or `dry_run`."""

    id: TaskId
    purged: bool
    code: str | None = None
    reason: str | None = None


class PurgeReply(Reply):
    """By ids: ordered results. By filter: what this step did."""

    results: list[PurgeResult] = []
    purged: int = 0
    matched: int | None = None
    """Dry run: how many would be removed."""
    next_cursor: str | None = None


class DeadGroups(Reply):
    """A dead-letter queue by reason and error, most frequent first."""

    tasks: int
    """All that fit the filter, those of groups that are not shown included."""
    groups: list[DeadGroup]
