"""The ways to take a worker out of service: a fence only while it holds nothing, a cordon while it works."""

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


class CordonRequest(Request):
    """Give workers nothing new, by pod UID; renewing is the same call with the same operation.

    They keep what they hold. `drain` also asks every process that now runs there to finish or give back what it
    holds and to end; a process that starts on such a pod later is only cordoned.
    """

    operation: WorkerPart
    pod_uids: Annotated[list[WorkerPart], Field(min_length=1, max_length=MAX_BATCH)]
    ttl_seconds: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    drain: bool = False


class CordonOutcome(StrEnum):
    """What became of one cordon."""

    CORDONED = "cordoned"
    OTHER_OPERATION = "other_operation"
    """Another operation cordoned it; nothing changed."""


class CordonResult(Reply):
    """The answer for one pod UID; durable before the reply."""

    pod_uid: str
    outcome: CordonOutcome
    leases: int = 0
    """What it still holds."""
    operation: str | None = None


class CordonReply(Reply):
    """Ordered results, and the broker epoch they hold under."""

    epoch: str
    results: list[CordonResult]


class UncordonRequest(Request):
    """Lift cordons. `operation` null lifts whatever operation set them."""

    operation: WorkerPart | None = None
    pod_uids: Annotated[list[WorkerPart], Field(min_length=1, max_length=MAX_BATCH)]


class UncordonResult(Reply):
    """The answer for one pod UID; lifting what is not cordoned is fine."""

    pod_uid: str
    lifted: bool


class UncordonReply(Reply):
    """Ordered results of an uncordon."""

    epoch: str
    results: list[UncordonResult]
