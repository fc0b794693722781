"""Leasing tasks, keeping the leases, and settling them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from leadsman.wire.base import (
    MAX_BATCH,
    MAX_SLOTS,
    MAX_WAIT_SECONDS,
    HandlerName,
    Name,
    Reply,
    Request,
    Seconds,
    TaskId,
    Token,
    WorkerPart,
)
from leadsman.wire.costs import RemainingBudget, Usage
from leadsman.wire.tasks import SubmitResult, TaskClass, TaskError, TaskState, TaskSubmit

MAX_FOLLOW_UPS = 100
"""Follow-up tasks of one ack."""


class WorkerState(StrEnum):
    """What the broker wants of a worker, told in every lease and heartbeat reply."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    """It keeps what it holds and gets nothing new, until the cordon is lifted."""
    DRAIN = "drain"
    """It is asked to drain and end: finish what it holds, or checkpoint it and give it back."""
    FENCED = "fenced"
    """It holds nothing and gets nothing: it is about to be taken away."""
    DRAINING = "draining"
    """It said so itself; it finishes what it holds and gets nothing new."""


class WorkerIdentity(Request):
    """Who calls. A worker's id is its pod's UID plus the incarnation of the process in it."""

    pod_uid: WorkerPart
    incarnation: WorkerPart
    pool: Name | None = None
    pod_name: Annotated[str, Field(max_length=253)] | None = None

    @property
    def id(self) -> str:
        """The worker's id: unique for one life of one process."""
        return f"{self.pod_uid}.{self.incarnation}"


class LeaseRequest(Request):
    """Ask for up to `free_slots` tasks, parked for up to `wait_seconds` while there are none.

    One call per worker is parked; a newer one displaces it. Repeating an `attempt_id` returns the leases that call
    was given and that are still held, with the same tokens, so a lost reply loses nothing.
    """

    worker: WorkerIdentity
    capabilities: Annotated[list[Name], Field(min_length=1, max_length=16)]
    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)]
    free_slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)]
    free_by_capability: dict[Name, Annotated[int, Field(ge=0, le=MAX_SLOTS)]] | None = None
    attempt_id: WorkerPart
    held: Annotated[list[Token], Field(max_length=MAX_SLOTS)] = []
    """Every lease the worker knows it holds. One missing in two successive lists is given back as undelivered."""
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)] = 0.0


class LeasedTask(Reply):
    """The task a lease is for, with all a handler needs."""

    id: TaskId
    namespace: Name
    capability: Name
    name: HandlerName
    payload: JsonValue = None
    tenant: str = ""
    task_class: Annotated[TaskClass, Field(alias="class")]
    priority: int
    attempt: int
    """1 for the first; counts failures and reclaims, not releases."""
    max_attempts: int
    epoch: int
    checkpoint: JsonValue = None
    """The last checkpoint of any earlier attempt, or null."""
    once: dict[str, JsonValue] | None = None
    """What earlier attempts stored with `once`, by key; null when there is nothing."""
    traceparent: str | None = None
    run_id: str | None = None
    age_seconds: float = 0.0
    """Since accept."""
    maybe_ran: bool | None = None
    """True: the broker was restored from a backup, and this may have run in the time that is missing in it."""


class Lease(Reply):
    """Ownership of one task until `expires_in_seconds` from the reply, renewed by heartbeats."""

    token: Token
    task: LeasedTask
    expires_in_seconds: float
    lease_seconds: float
    heartbeat_seconds: float
    attempt_timeout_seconds: float
    """Total hold of this attempt; no renewal goes beyond it."""
    progress_timeout_seconds: float | None = None
    """A renewal is refused once the last sign of progress is older; null: never."""
    unreachable_seconds: float
    """How long a worker that cannot reach the broker goes on before it gives up by itself."""
    remaining_budget: RemainingBudget | None = None
    """As of the reply; absent: neither its run nor its queue has a cap."""


class LeaseReply(Reply):
    """What was leased; empty when the wait ran out or the worker is not active."""

    worker: WorkerState
    leases: list[Lease]


class LeaseStatus(StrEnum):
    """The answer of a heartbeat for one lease."""

    OK = "ok"
    LEASE_LOST = "lease_lost"
    NO_PROGRESS = "no_progress"
    """Not renewed: it shows no progress. It still holds for `expires_in_seconds`, to fail or give back the task."""
    CANCELLED = "cancelled"


class CarriesCheckpoint(Request):
    """A message that may carry a checkpoint. Null is a checkpoint too: an absent field is none."""

    checkpoint: JsonValue = None

    @property
    def has_checkpoint(self) -> bool:
        """Whether the sender gave one."""
        return "checkpoint" in self.model_fields_set


class CarriesUsage(Request):
    """A message that may say what the attempt has used in all so far. It is booked whatever the answer is."""

    usage: Usage | None = None


class HeartbeatItem(CarriesCheckpoint, CarriesUsage):
    """One lease to renew. A checkpoint and usage are durable before the reply."""

    token: Token
    progress_seq: Annotated[int, Field(ge=0, le=9_007_199_254_740_991)] | None = None
    """Grows with every step of the work. Growth and a checkpoint are the signs of progress."""


class HeartbeatRequest(Request):
    """Renew every lease of a worker in one call. Also sent without leases, so that an idle worker stays known."""

    worker: WorkerIdentity
    capabilities: Annotated[list[Name], Field(min_length=1, max_length=16)]
    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)]
    draining: bool = False
    leases: Annotated[list[HeartbeatItem], Field(max_length=MAX_SLOTS)] = []


class HeartbeatResult(Reply):
    """The answer for one lease."""

    token: Token
    status: LeaseStatus
    expires_in_seconds: float = 0.0
    remaining_budget: RemainingBudget | None = None
    """With the usage that this heartbeat carried counted; absent: no cap, or the lease is lost."""


class HeartbeatReply(Reply):
    """Ordered results, and what the broker wants of the worker."""

    worker: WorkerState
    leases: list[HeartbeatResult]


class OnceRequest(Request):
    """Store a value that later attempts of the task are handed; the first one stored under a key stays."""

    token: Token
    key: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.:/-]+$")]
    value: JsonValue = None


class OnceReply(Reply):
    """The value that counts, durable before the reply.

    `first` false: it was there before, from an earlier attempt or from this call when its reply was lost. `ok`
    false comes with a `code`: `lease_lost`, `value_too_large` or `too_many_keys`.
    """

    ok: bool
    first: bool = False
    value: JsonValue = None
    code: str | None = None
    detail: str | None = None


class AckItem(CarriesUsage):
    """The task is done."""

    token: Token
    result: JsonValue = None
    tasks: Annotated[list[TaskSubmit], Field(max_length=MAX_FOLLOW_UPS, default_factory=list)]
    """Follow-up tasks, accepted in the same transaction and never refused for depth. In the run of the task that
    is done, unless they name another."""


class NackItem(CarriesCheckpoint, CarriesUsage):
    """The attempt failed."""

    token: Token
    error: TaskError
    retry: bool = True
    """False: dead at once, whatever attempts are left."""
    retry_after_s: Seconds | None = None
    """Not before this; the backoff still applies when it is longer."""


class ReleaseItem(CarriesCheckpoint, CarriesUsage):
    """The worker gives the task back without a failure: it drains, or a provider said "later"."""

    token: Token
    delay_seconds: Seconds = 0.0
    reason: Annotated[str, Field(max_length=200)] = ""


class AckRequest(Request):
    """A batch of acks; results come back in the same order."""

    acks: Annotated[list[AckItem], Field(min_length=1, max_length=MAX_BATCH)]


class NackRequest(Request):
    """A batch of nacks; results come back in the same order."""

    nacks: Annotated[list[NackItem], Field(min_length=1, max_length=MAX_BATCH)]


class ReleaseRequest(Request):
    """A batch of releases; results come back in the same order."""

    releases: Annotated[list[ReleaseItem], Field(min_length=1, max_length=MAX_BATCH)]


class SettleResult(Reply):
    """The answer for one settlement.

    `ok` false comes with a `code`: `lease_lost`, `already_settled`, `unknown_task`, `result_too_large`,
    `checkpoint_too_large` or `follow_up_refused` (then the lease still holds). Repeating a settlement with the same
    token and operation gives the first answer again.
    """

    ok: bool
    state: TaskState | None = None
    code: str | None = None
    detail: str | None = None
    tasks: list[SubmitResult] | None = None
    """Answers for the follow-up tasks of an ack, in order; a repeated ack gets those of the first."""
    late: bool | None = None
    """An ack that came after the lease was reclaimed and before anyone else had the task."""


class SettleReply(Reply):
    """Ordered results of a batch of settlements."""

    results: list[SettleResult]
