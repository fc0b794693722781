"""What the core answers: one frozen class per kind of result.

The shell turns them into wire models; nothing here knows HTTP. Those of which there is one per task are named
tuples, which are made in half the time.
"""

from dataclasses import dataclass
from typing import NamedTuple

from leadsman.wire.leases import LeaseStatus, WorkerState
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman.wire.workers import CordonOutcome, FenceOutcome
from leadsman_broker.core.rows import PauseRow
from leadsman_broker.core.usage import Remaining

SATURATED = "pool saturated"
"""The seed's word for a refusal for depth."""


class Accepted(NamedTuple):
    """The task is in; `duplicate` when its idempotency key was known, `state` then is what became of that task."""

    id: str
    state: TaskState
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Saturated:
    """Refused for depth."""

    retry_after_s: int

    def as_dict(self) -> dict[str, bool | str | int]:
        """Return the refusal, word for word as the requirement states it."""
        return {"accepted": False, "reason": SATURATED, "retry_after_s": self.retry_after_s}


@dataclass(frozen=True, slots=True)
class Refused:
    """Refused for another cause.

    The code: `unknown_capability`, `payload_too_large`, `idempotency_mismatch`,
    `run_ended` or `estimate_too_large`.
    """

    code: str
    reason: str


SubmitOutcome = Accepted | Saturated | Refused


class Granted(NamedTuple):
    """One lease given. Handler name, payload, checkpoint and trace come from `Store.deliveries`."""

    token: str
    task_id: str
    tenant: str
    task_class: TaskClass
    priority: int
    attempt: int
    max_attempts: int
    epoch: int
    run_id: str
    age_seconds: float
    maybe_ran: bool
    """It comes from a backup and may have run, even to its end, in the time the backup does not know of."""
    first: bool
    """Nobody had it before, so there is no checkpoint of it and nothing that was done once."""
    remaining: Remaining | None
    """What the attempt may still use; None: it has no cap."""
    namespace: str
    """From here on what all tasks of one queue share that are leased in one step."""
    capability: str
    expires_at: float
    """By the broker's clock; the shell turns it into a duration when the reply leaves."""
    lease_seconds: float
    heartbeat_seconds: float
    attempt_timeout_seconds: float
    progress_timeout_seconds: float | None
    unreachable_seconds: float


class Answer(NamedTuple):
    """The end of a lease call: what it got (maybe nothing) and what the broker wants of the worker."""

    call: int
    worker: WorkerState
    leases: tuple[Granted, ...] = ()


@dataclass(frozen=True, slots=True)
class BeatOutcome:
    """The answer of a heartbeat for one lease."""

    token: str
    status: LeaseStatus
    expires_at: float = 0.0
    remaining: Remaining | None = None
    """What the attempt may still use; None: it has no cap, or lost its lease."""


@dataclass(frozen=True, slots=True)
class HeartbeatOutcome:
    """Ordered answers, and what the broker wants of the worker."""

    worker: WorkerState
    leases: tuple[BeatOutcome, ...]


class Settled(NamedTuple):
    """The answer of ack, nack and release.

    `ok` false comes with a `code`: `lease_lost`, `already_settled`, `unknown_task`, `result_too_large` or
    `checkpoint_too_large`.
    """

    ok: bool
    state: TaskState | None = None
    code: str | None = None
    detail: str | None = None
    late: bool = False
    tasks: tuple[SubmitOutcome, ...] | None = None
    """Answers for the follow-up tasks of an ack."""


@dataclass(frozen=True, slots=True)
class Onced:
    """`value` is what is stored under the key; `first` when this call stored it.

    `ok` false comes with a `code`: `lease_lost`, `value_too_large` or `too_many_keys`.
    """

    ok: bool
    value: bytes | None = None
    first: bool = False
    code: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class RunPut:
    """`state` after the call; None: no such run is known. `changed` false: it had ended, and stays as it is."""

    state: RunState | None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`state` after the cancel; None when no such task is known. `requested`: leased, final at its settlement."""

    state: TaskState | None
    requested: bool = False


@dataclass(frozen=True, slots=True)
class Redriven:
    """`code` when it was not.

    `unknown_task`, `not_dead`, `unknown_capability`, `run_ended`, `saturated` or `dry_run`.
    """

    id: str
    redriven: bool
    code: str | None = None
    reason: str | None = None
    retry_after_s: int | None = None
    repeated: bool = False
    """This very redrive had brought it back before; the answer to that was lost."""


@dataclass(frozen=True, slots=True)
class Purged:
    """`code` when it was not: `unknown_task`, `not_dead` or `dry_run`."""

    id: str
    purged: bool
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """`pause` is the one in force, None: not paused. `known` false: there is no such capability."""

    pause: PauseRow | None
    changed: bool = False
    known: bool = True


@dataclass(frozen=True, slots=True)
class Fenced:
    """What became of one fence; `operation` is the one in force."""

    pod_uid: str
    outcome: FenceOutcome
    leases: int = 0
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Cordoned:
    """What became of one cordon; `leases` it still holds, `operation` is the one in force."""

    pod_uid: str
    outcome: CordonOutcome
    leases: int
    operation: str


@dataclass(frozen=True, slots=True)
class Configured:
    """`applied` false when a newer generation was known. `retained`: unlisted queues that still hold tasks."""

    generation: int
    applied: bool
    retained: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Swept:
    """How many terminal tasks went; `more` when the limit was reached."""

    removed: int
    more: bool


Result = (
    list[SubmitOutcome]
    | HeartbeatOutcome
    | Settled
    | Onced
    | Cancelled
    | RunPut
    | list[Redriven]
    | list[Purged]
    | Paused
    | list[Fenced]
    | list[Cordoned]
    | list[bool]
    | Configured
    | Swept
    | None
)
