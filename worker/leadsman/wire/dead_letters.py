"""The dead-letter queue of a capability."""

from typing import Annotated

from pydantic import Field

from leadsman.wire.base import MAX_BATCH, Reply, Request, TaskId


class RedriveRequest(Request):
    """Put dead tasks back in their queue: attempts reset, history kept, admission respected."""

    ids: Annotated[list[TaskId], Field(min_length=1, max_length=MAX_BATCH)]


class RedriveResult(Reply):
    """The answer for one id. `code`: `unknown_task`, `not_dead` or `saturated` (with `retry_after_s`)."""

    id: TaskId
    redriven: bool
    code: str | None = None
    reason: str | None = None
    retry_after_s: int | None = None


class RedriveReply(Reply):
    """Ordered results of a redrive."""

    results: list[RedriveResult]
