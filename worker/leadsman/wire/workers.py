"""Fencing: the operator's way to take a worker out of service only while it holds nothing."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from leadsman.wire.base import MAX_BATCH, Reply, Request, WorkerPart


class FenceRequest(Request):
    """Fence workers by pod UID; renewing is the same call with the same operation."""

    operation: WorkerPart
    pod_uids: Annotated[list[WorkerPart], Field(min_length=1, max_length=MAX_BATCH)]
    ttl_seconds: Annotated[float, Field(gt=0, le=3_600)] = 300.0


class FenceOutcome(StrEnum):
    """What became of one fence."""

    FENCED = "fenced"
    BUSY = "busy"
    """It holds a lease; nothing changed."""
    OTHER_OPERATION = "other_operation"
    """Another operation fenced it."""


class FenceResult(Reply):
    """The answer for one pod UID; durable before the reply."""

    pod_uid: str
    outcome: FenceOutcome
    leases: int = 0
    operation: str | None = None


class FenceReply(Reply):
    """Ordered results, and the broker epoch they hold under."""

    epoch: str
    results: list[FenceResult]


class UnfenceRequest(Request):
    """Lift fences. `operation` null lifts whatever operation set them."""

    operation: WorkerPart | None = None
    pod_uids: Annotated[list[WorkerPart], Field(min_length=1, max_length=MAX_BATCH)]


class UnfenceResult(Reply):
    """The answer for one pod UID; lifting what is not fenced is fine."""

    pod_uid: str
    lifted: bool


class UnfenceReply(Reply):
    """Ordered results of an unfence."""

    epoch: str
    results: list[UnfenceResult]
