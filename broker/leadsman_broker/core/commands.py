"""Everything the core can be told: one frozen class per command, and nothing else.

Payloads, checkpoints and results travel as the bytes of a JSON text; the core never parses them. Durations are
seconds. What a command answers is in `leadsman_broker.core.results`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core.rows import Caps
from leadsman_broker.core.usage import Estimate, Usage


class NewTask(NamedTuple):
    """One task to enqueue. `payload` is JSON text; `fingerprint` (see `core.fingerprint`) is needed with a key."""

    capability: str
    payload: bytes = b"null"
    name: str = "default"
    tenant: str = ""
    task_class: TaskClass = TaskClass.BACKGROUND
    priority: int | None = None
    """0-9, higher first; None is the default of the class (5 interactive, 0 background)."""
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    delay_seconds: float = 0.0
    ttl_seconds: float | None = None
    max_attempts: int | None = None
    traceparent: str | None = None
    run_id: str = ""
    estimate: Estimate | None = None
    """What an attempt may use; None: the capability's default."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Accept a batch. Answer: `list[SubmitOutcome]`, in order."""

    namespace: str
    tasks: tuple[NewTask, ...]


@dataclass(frozen=True, slots=True)
class Worker:
    """Who calls: one process life (`incarnation`) in one pod."""

    namespace: str
    pod_uid: str
    incarnation: str
    pool: str | None = None
    pod_name: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Ask for tasks. Not answered by `apply`: its answer comes out of `dispatch` (or `tick`) under the same `call`.

    `call` is unique in the life of the process. One call per worker is parked; a newer one ends the older empty.
    """

    call: int
    worker: Worker
    capabilities: tuple[str, ...]
    slots: int
    free_slots: int
    attempt_id: str
    held: tuple[str, ...] = ()
    """Tokens of every lease the worker knows it holds."""
    free_by_capability: Mapping[str, int] | None = None
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Abandon:
    """The socket of a parked lease call is gone: it must get nothing. Answer: None."""

    call: int


@dataclass(frozen=True, slots=True)
class Beat:
    """One lease to renew; what is None is not carried. `usage` is the attempt's total so far."""

    token: str
    checkpoint: bytes | None = None
    progress_seq: int | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Renew a worker's leases; the list is complete, so it counts as a list of what is held.

    Answer: `HeartbeatOutcome`. Writes nothing unless a checkpoint or usage is carried.
    """

    worker: Worker
    capabilities: tuple[str, ...]
    slots: int
    draining: bool = False
    leases: tuple[Beat, ...] = ()


class Ack(NamedTuple):
    """The task is done; `result` is JSON text or None, `tasks` follow it in the same step. Answer: `Settled`."""

    namespace: str
    token: str
    result: bytes | None = None
    usage: Usage | None = None
    tasks: tuple[NewTask, ...] = ()


@dataclass(frozen=True, slots=True)
class Nack:
    """The attempt failed. Answer: `Settled`."""

    namespace: str
    token: str
    error_type: str
    error_message: str = ""
    retry: bool = True
    retry_after_seconds: float | None = None
    checkpoint: bytes | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The worker gives the task back without a failure. Answer: `Settled`."""

    namespace: str
    token: str
    delay_seconds: float = 0.0
    reason: str = ""
    checkpoint: bytes | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Once:
    """Store a value, JSON text, for the later attempts of a task; the first under a key stays. Answer: `Onced`."""

    namespace: str
    token: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a task: at once while queued, else at its settlement or reclaim. Answer: `Cancelled`."""

    namespace: str
    task_id: str


@dataclass(frozen=True, slots=True)
class PutRun:
    """Create a run, or give a running one other caps. Answer: `RunPut`."""

    namespace: str
    run_id: str
    caps: Caps


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Cancel a run and every task of it. Answer: `RunPut`; what has ended stays as it ended."""

    namespace: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Redrive:
    """Put dead tasks back, admission respected. Answer: `list[Redriven]`, in order."""

    namespace: str
    capability: str
    task_ids: tuple[str, ...]
    operation: str = ""
    """A task that the redrive of this name brought back is not brought back again; "" names none."""
    paced: bool = False
    """Stop while half of the queue's depth is used up, so that new work has room beside many redriven tasks."""
    dry_run: bool = False
    """Change nothing; say `dry_run` of what would be redriven, room or not."""


@dataclass(frozen=True, slots=True)
class Purge:
    """Remove dead tasks for good. Answer: `list[Purged]`, in order."""

    namespace: str
    capability: str
    task_ids: tuple[str, ...]
    dry_run: bool = False
    """Change nothing; what would go is answered with the code `dry_run`."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Lease nothing of a capability until it is resumed. Answer: `Paused`."""

    namespace: str
    capability: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Lift a pause. Answer: `Paused`."""

    namespace: str
    capability: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Take pods out of service if they hold nothing; the same operation renews. Answer: `list[Fenced]`."""

    operation: str
    pod_uids: tuple[str, ...]
    ttl_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Unfence:
    """Lift fences; `operation` None lifts whatever operation set them. Answer: `list[bool]` (lifted), in order."""

    pod_uids: tuple[str, ...]
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Cordon:
    """Give pods nothing new; the same operation renews. Answer: `list[Cordoned]`, in order."""

    operation: str
    pod_uids: tuple[str, ...]
    ttl_seconds: float = 300.0
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Lift cordons; `operation` None lifts whatever operation set them. Answer: `list[bool]` (lifted), in order."""

    pod_uids: tuple[str, ...]
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Configure:
    """The full set of a namespace's capabilities. Answer: `Configured`."""

    namespace: str
    generation: int
    capabilities: tuple[CapabilityConfig, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Remove terminal tasks whose retention was over at `before`. A chore of the core. Answer: `Swept`."""

    before: float
    limit: int = 500


Command = (
    Enqueue
    | Lease
    | Abandon
    | Heartbeat
    | Ack
    | Nack
    | Release
    | Once
    | Cancel
    | PutRun
    | CancelRun
    | Redrive
    | Purge
    | Pause
    | Resume
    | Fence
    | Unfence
    | Cordon
    | Uncordon
    | Configure
    | Sweep
)
