"""The rows that travel between the core and a store, and the changes of one step.

A store keeps exactly these; a core that is built again from them is equal to the one that wrote them. Every durable
effect of a step is in one `Changes`, which a store commits in one transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core.openings import OpeningRow
from leadsman_broker.core.usage import NOTHING, Estimate, Usage

KeyId = tuple[str, str, str, str]
"""An idempotency key in full: namespace, capability, tenant, key."""

QueueKey = tuple[str, str]
"""A queue: namespace, capability."""


WorkerKey = tuple[str, str, str]
"""A worker: namespace, pod UID, incarnation."""


def worker_id(key: WorkerKey) -> str:
    """Return the id by which people and the wire know a worker."""
    return f"{key[1]}.{key[2]}"


class Standing(NamedTuple):
    """The part of a live task that changes, as stored."""

    due_at: float
    """Ready from then on. Whether a queued task is delayed or ready follows from the clock alone."""
    backing_off: bool
    """It waits for a retry; the producer did not ask for the delay."""
    expires_at: float | None
    epoch: int
    """Deliveries so far."""
    secret: str
    """Random part of the newest token; stays after the lease ended, for a late ack."""
    failures: int
    reclaims: int
    releases: int
    poison: int
    """Counted reclaims in a row without a nack or a new checkpoint."""
    suspect: bool
    cancel: bool
    """Asked for while leased."""
    history: int
    """Entries written so far; numbers the next one."""
    settled_epoch: int
    """0: never settled. With the next two, the last settlement and its answer."""
    settled_op: str
    settled_state: TaskState | None
    lease_pod: str | None
    """None: not leased. So are the next five then."""
    lease_incarnation: str | None
    lease_pool: str | None
    lease_attempt_id: str | None
    lease_started_at: float | None
    lease_expires_at: float | None
    """As of the grant; heartbeats write nothing, and a start extends every lease."""


class LiveRow(NamedTuple):
    """A task that is not terminal, without its payload."""

    seq: int
    id: str
    namespace: str
    capability: str
    tenant: str
    task_class: TaskClass
    priority: int
    keyed: bool
    """It has an idempotency key."""
    accepted_at: float
    max_attempts: int
    run_id: str
    """"": it belongs to no run."""
    estimate: Estimate | None
    standing: Standing


class AcceptedRow(NamedTuple):
    """A new task in full."""

    live: LiveRow
    name: str
    payload: bytes
    key: str | None
    fingerprint: bytes
    traceparent: str | None


class FollowUp(NamedTuple):
    """What was answered for a task that an ack handed in: accepted with an id, or refused with a code."""

    id: str | None
    state: TaskState | None
    duplicate: bool = False
    code: str | None = None
    reason: str | None = None


class EndedRow(NamedTuple):
    """A terminal task as the core needs it: to answer a repeated settlement, a key, a redrive."""

    live: LiveRow
    state: TaskState
    ended_at: float
    visible_until: float
    """From then on the task is unknown to callers."""
    purge_at: float
    """From then on the row may go. Later than `visible_until` while an idempotency key still needs it."""
    late: bool
    """Completed by a late ack."""
    follow_ups: tuple[FollowUp, ...] | None = None
    """Of the ack that completed it, so that a repeated one gets the same answer; None: it handed in none."""


class Ending(NamedTuple):
    """A live task becoming terminal."""

    ended: EndedRow
    reason: str | None
    error_type: str | None
    error_message: str | None
    result: bytes | None


class HistoryRow(NamedTuple):
    """One thing that happened to a task. Stores keep the newest `HISTORY_LIMIT` of a task."""

    seq: int
    number: int
    at: float
    event: str
    epoch: int
    worker: str | None
    detail: str | None
    began: float | None = None
    """When the lease in force at that moment was given; None: the task was not leased."""


HISTORY_LIMIT = 50


class OnceRow(NamedTuple):
    """A value that a task's later attempts are handed."""

    seq: int
    key: str
    value: bytes


class RedriveRow(NamedTuple):
    """How a task was brought back last."""

    operation: str
    """The name of the redrive; "" when it had none."""
    at: float
    """Its ttl runs from then on."""


class KeyRow(NamedTuple):
    """What an idempotency key stands for. `state` and `ended_at` are None while its task lives."""

    task_id: str
    fingerprint: bytes
    state: TaskState | None
    ended_at: float | None


class FenceRow(NamedTuple):
    """A fence in force on a pod UID."""

    pod_uid: str
    operation: str
    expires_at: float


class CordonRow(NamedTuple):
    """A cordon in force on a pod UID."""

    pod_uid: str
    operation: str
    expires_at: float
    drain: bool


class PauseRow(NamedTuple):
    """A pause in force; kept apart from the configuration, which is pushed anew at any time."""

    namespace: str
    capability: str
    at: float
    reason: str


class NamespaceRow(NamedTuple):
    """The configuration of a namespace."""

    namespace: str
    generation: int
    capabilities: tuple[CapabilityConfig, ...] = ()
    retained: tuple[CapabilityConfig, ...] = ()
    """Rules of queues no longer listed that still held tasks."""


class TotalsRow(NamedTuple):
    """Counters of a queue since it was first seen."""

    accepted: int = 0
    completed: int = 0
    failed: int = 0
    reclaimed: int = 0
    refused: int = 0
    late_acks: int = 0
    dead: int = 0
    expired: int = 0
    cancelled: int = 0
    no_progress: int = 0
    redriven: int = 0
    purged: int = 0
    shed: int = 0
    tokens: int = 0
    """Used by attempts, as far as they said; with the next."""
    cost_micros: int = 0
    lost_tokens: int = 0
    """Of these, by attempts that had lost their lease by then; with the next."""
    lost_cost_micros: int = 0
    over_limit: int = 0
    """Follow-up tasks that were accepted although the queue was full."""
    over_budget: int = 0
    """Interactive tasks that were leased although the budget was used up."""


class AttemptOutcome(StrEnum):
    """How an attempt ended, in the ledger."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"
    """Its lease was lost: what it did was done twice, or for nothing."""


AttemptKey = tuple[int, int]
"""A delivery: seq of the task, epoch."""


class LedgerRow(NamedTuple):
    """What one attempt used. Only attempts that said so have a row, and those that lost their lease."""

    seq: int
    epoch: int
    task_id: str
    namespace: str
    capability: str
    tenant: str
    run_id: str
    leased_at: float
    outcome: AttemptOutcome
    usage: Usage
    purge_at: float
    reported: bool = True
    """It has said what it used; else `usage` is nothing."""
    reserved: Usage | None = None
    """What its budget set aside for it; None: no budget counts it."""

    @property
    def charge(self) -> Usage:
        """Return what its budget is charged: the reservation or more while it runs, then what it said.

        One that ended without a word is charged its estimate, unless it was given back.
        """
        if self.reserved is None:
            return NOTHING
        if self.outcome is AttemptOutcome.RUNNING:
            return self.usage.raised_to(self.reserved)
        return self.usage if self.reported or self.outcome is AttemptOutcome.RELEASED else self.reserved


class BudgetRow(NamedTuple):
    """What the ended attempts of one window were charged: of a queue, or of one of its tenants."""

    namespace: str
    capability: str
    tenant: str | None
    """None: the queue."""
    starts_at: float
    """Of the window."""
    settled: Usage


RunKey = tuple[str, str]
"""A run: namespace, id."""


class Caps(NamedTuple):
    """What a run may use; None: no cap. Seconds count from its creation."""

    tokens: int | None = None
    cost_micros: int | None = None
    seconds: float | None = None
    tasks: int | None = None


class RunRow(NamedTuple):
    """A run as stored."""

    namespace: str
    id: str
    state: RunState
    reason: str | None
    created_at: float
    ended_at: float | None
    caps: Caps
    accepted: int
    """Tasks so far; the next four say what became of them, the rest is live."""
    completed: int
    dead: int
    expired: int
    cancelled: int
    usage: Usage
    lost_usage: Usage
    purge_at: float | None
    """None: it has live tasks, or waits for its deadline without any."""

    @property
    def live(self) -> int:
        """Return how many of its tasks have not ended."""
        return self.accepted - self.completed - self.dead - self.expired - self.cancelled


class PurgedRow(NamedTuple):
    """A terminal row that goes, and its queue and state so that counters can follow."""

    seq: int
    task_id: str
    namespace: str
    capability: str
    state: TaskState


@dataclass(slots=True)
class Needs:
    """What commands need to see of the store before they are applied."""

    keys: set[KeyId] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    """Ids of tasks that are not live."""
    once: set[str] = field(default_factory=set)
    """Ids of tasks whose `once` values are wanted, live or not: one may be redriven in the same step."""
    redriven: set[str] = field(default_factory=set)
    """Ids of tasks of which it is wanted how they were brought back last."""
    purge_before: float = 0.0
    purge_limit: int = 0
    """How many rows with `purge_at` up to `purge_before` to load, the earliest first; so of the ledger."""
    attempts: set[AttemptKey] = field(default_factory=set)
    """Attempts that are over and of which the ledger may know."""
    runs: set[RunKey] = field(default_factory=set)
    """Runs that have ended; those of the tasks in `ended` come without being asked for."""

    def __bool__(self) -> bool:
        wanted = (self.keys, self.ended, self.once, self.redriven, self.purge_limit, self.attempts, self.runs)
        return any(wanted)


@dataclass(slots=True)
class Loaded:
    """What was found. The core keeps it current while it applies a batch, so that later commands see earlier ones.

    Read it only after the commit of the step before has returned.
    """

    keys: dict[KeyId, KeyRow] = field(default_factory=dict)
    ended: dict[str, EndedRow] = field(default_factory=dict)
    once: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Task id -> key -> value; absent when the task has none."""
    redriven: dict[str, RedriveRow] = field(default_factory=dict)
    """By task id; absent when the task was never brought back."""
    purge: list[PurgedRow] = field(default_factory=list)
    ledger: dict[AttemptKey, LedgerRow] = field(default_factory=dict)
    ledger_purge: list[AttemptKey] = field(default_factory=list)
    runs: dict[RunKey, RunRow] = field(default_factory=dict)
    run_purge: list[RunKey] = field(default_factory=list)


@dataclass(slots=True)
class Changes:
    """Every durable effect of one step. A store applies the fields in this order, in one transaction."""

    at: float = 0.0
    """The broker's clock at the step; a later start must not begin before it."""
    next_seq: int = 0
    accepted: list[AcceptedRow] = field(default_factory=list)
    revived: list[LiveRow] = field(default_factory=list)
    """Terminal tasks that live again."""
    updated: list[LiveRow] = field(default_factory=list)
    """Live tasks whose standing changed."""
    checkpoints: dict[int, bytes] = field(default_factory=dict)
    """seq -> last checkpoint."""
    once: list[OnceRow] = field(default_factory=list)
    """New keys only."""
    redriven: dict[int, RedriveRow] = field(default_factory=dict)
    """By seq."""
    history: list[HistoryRow] = field(default_factory=list)
    ended: list[Ending] = field(default_factory=list)
    purged: list[PurgedRow] = field(default_factory=list)
    namespaces: dict[str, NamespaceRow] = field(default_factory=dict)
    fences: dict[str, FenceRow | None] = field(default_factory=dict)
    """Pod UID -> fence in force, None: lifted."""
    cordons: dict[str, CordonRow | None] = field(default_factory=dict)
    """Pod UID -> cordon in force, None: lifted."""
    pauses: dict[QueueKey, PauseRow | None] = field(default_factory=dict)
    """Queue -> pause in force, None: resumed."""
    totals: dict[QueueKey, TotalsRow] = field(default_factory=dict)
    service_times: dict[QueueKey, tuple[float, ...]] = field(default_factory=dict)
    """Newest last. Written at most every few seconds per queue: losing the newest few in a crash is harmless."""
    forgotten: list[QueueKey] = field(default_factory=list)
    """Queues that are gone for good: their totals and service times go."""
    restored: bool = False
    """A core has started from a backup and let go of its leases: `Stored.restoring` is over."""
    ledger: dict[AttemptKey, LedgerRow] = field(default_factory=dict)
    """Attempts of which more is known now; each row replaces the one before."""
    ledger_purged: list[AttemptKey] = field(default_factory=list)
    runs: dict[RunKey, RunRow] = field(default_factory=dict)
    runs_purged: list[RunKey] = field(default_factory=list)
    budgets_turned: dict[QueueKey, float] = field(default_factory=dict)
    """Queue -> begin of the window; rows of earlier ones go."""
    budgets: list[BudgetRow] = field(default_factory=list)
    openings: list[OpeningRow] = field(default_factory=list)
    """Each replaces the one before."""
    openings_before: float = 0.0
    """Tenants' openings before this time go."""

    def __bool__(self) -> bool:
        return bool(
            self.accepted
            or self.revived
            or self.updated
            or self.checkpoints
            or self.once
            or self.redriven
            or self.history
            or self.ended
            or self.purged
            or self.namespaces
            or self.fences
            or self.cordons
            or self.pauses
            or self.totals
            or self.service_times
            or self.forgotten
            or self.restored
            or self.ledger
            or self.ledger_purged
            or self.runs
            or self.runs_purged
            or self.budgets_turned
            or self.budgets
            or self.openings
            or self.openings_before
        )


@dataclass(slots=True)
class Stored:
    """All that a core needs to start: read once, `tasks` lazily and in order of seq."""

    tasks: Iterable[LiveRow]
    next_seq: int = 1
    last_at: float = 0.0
    """The highest `Changes.at` committed; start the clock no earlier, whatever the wall clock says."""
    restored_below: int = 0
    """Tasks with a seq below it come from a backup: they may have run in the time that is missing."""
    restoring: bool = False
    """The rows are those of a backup, as it was made, and no core has started from them yet."""
    dead: dict[QueueKey, int] = field(default_factory=dict)
    namespaces: list[NamespaceRow] = field(default_factory=list)
    fences: list[FenceRow] = field(default_factory=list)
    cordons: list[CordonRow] = field(default_factory=list)
    pauses: list[PauseRow] = field(default_factory=list)
    totals: dict[QueueKey, TotalsRow] = field(default_factory=dict)
    service_times: dict[QueueKey, tuple[float, ...]] = field(default_factory=dict)
    running: list[LedgerRow] = field(default_factory=list)
    """Ledger rows of attempts that had not ended."""
    runs: list[RunRow] = field(default_factory=list)
    """Those without a time to purge."""
    budgets: list[BudgetRow] = field(default_factory=list)
    openings: list[OpeningRow] = field(default_factory=list)
