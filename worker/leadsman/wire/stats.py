"""What the scaler reads: per capability how much work there is, per worker what it holds."""

from pydantic import Field

from leadsman.wire.base import Reply
from leadsman.wire.leases import WorkerState


class CapabilityStats(Reply):
    """One queue at one moment."""

    namespace: str
    name: str
    ready: int
    delayed: int
    leased: int
    dead: int
    waiting: int
    """W: ready work that is not paused."""
    leasable: int
    """Q: how many more tasks could be in flight at once if workers were unlimited."""
    due_soon: int
    """Delayed work due within the pools' start-up time; retries in backoff are not counted."""
    next_due_seconds: float | None = None
    oldest_age_seconds: float | None = None
    """Age of the oldest ready task since it became leasable, at the time of the sample; null when none waits."""
    service_seconds: float | None = None
    """S: mean service time of the last 200 completions, top 1 % clipped; null below 10."""
    background_ready: int = 0
    """Ready tasks of class background."""
    background_leased: int = 0
    """Tasks of class background in flight."""
    blocked: dict[str, int] = Field(default_factory=dict)
    """Reason -> tasks it holds back."""
    accepted_total: int = 0
    completed_total: int = 0
    failed_total: int = 0
    reclaimed_total: int = 0
    refused_total: int = 0
    shed_total: int = 0
    """Waiting tasks dropped for others of higher priority."""
    no_progress_total: int = 0
    """Attempts whose lease was not renewed because they showed no progress."""
    configured: bool = True
    paused: bool = False
    """Nothing of it is leased until someone resumes it."""


class WorkerStats(Reply):
    """One worker at one moment."""

    id: str
    pod_uid: str
    namespace: str
    pool: str | None = None
    capabilities: list[str]
    slots: int
    leases: int
    leases_by_capability: dict[str, int] = Field(default_factory=dict)
    idle_seconds: float
    """Since it last held a lease (or since it was first heard); 0 while it holds one."""
    last_heard_seconds: float
    parked: bool = False
    """A lease call of its is waiting."""
    state: WorkerState
    operation: str | None = None
    """Who fenced it, or else who cordoned it."""


class FenceStats(Reply):
    """A fence in force, also on a pod UID that no worker has registered with."""

    pod_uid: str
    operation: str
    expires_in_seconds: float


class CordonStats(Reply):
    """A cordon in force, also on a pod UID that no worker has registered with."""

    pod_uid: str
    operation: str
    drain: bool = False
    expires_in_seconds: float


class StatsSnapshot(Reply):
    """Everything, in one consistent sample.

    On `/v1/stats/stream` the first event (`snapshot`) is this; every further one (`delta`) has the same form and
    carries only what changed, with what is gone in the `gone_` lists. A `tick` event (same form, empty) says that
    nothing changed and the signal is alive.
    """

    epoch: str
    """Changes at every broker start."""
    sequence: int
    capabilities: list[CapabilityStats] = []
    workers: list[WorkerStats] = []
    fences: list[FenceStats] = []
    """Always the full list of fences in force, in every kind of event."""
    cordons: list[CordonStats] = []
    """As the fences: always the full list."""
    gone_capabilities: list[tuple[str, str]] = []
    """(namespace, name)"""
    gone_workers: list[str] = []
