"""The few numbers of the core that no capability sets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults suit production; the simulator and tests turn jitter off to make runs comparable."""

    reclaim_jitter: float = 0.2
    """A lost lease is reclaimed at its expiry plus U(0, this) of the lease, so that a dead node is no wave."""
    backoff_jitter: float = 0.25
    """U(0, this) of a backoff is added to it."""
    delivery_grace_seconds: float = 2.0
    """A list of held leases made this soon after a grant proves nothing: the reply may be under way."""
    worker_forget_seconds: float = 120.0
    """A worker that holds nothing and was not heard for this long is forgotten."""
    worker_silent_seconds: float = 45.0
    """A worker that was not heard for this long offers no slots to the interactive reserve."""
    suspect_patience_seconds: float = 60.0
    """How long a suspect task waits for a worker that holds nothing, before any worker may have it."""
    max_releases: int = 100
    release_gap_seconds: float = 0.1
    """The least delay of every release of a task but its first."""
    key_retention_seconds: float = 86_400.0
    """How long an idempotency key outlives its task."""
    run_retention_seconds: float = 7_776_000.0
    """How long a run can be read after its end."""
    max_result_bytes: int = 65_536
    max_checkpoint_bytes: int = 65_536
    max_once_bytes: int = 16_384
    max_once_keys: int = 64
    """`once` values of one task: all of them travel with every lease of it."""
    timers_per_step: int = 2_000
    """Most reclaims, and most expiries, of one step: a crash of 200,000 leases must not hold up heartbeats."""
    service_times_flush_seconds: float = 2.0
    sweep_seconds: float = 30.0
