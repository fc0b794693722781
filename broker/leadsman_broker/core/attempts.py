"""What an attempt costs, and how long the next one waits.

Four counters: deliveries (the epoch), failures, reclaims, releases. Failures and reclaims spend `max_attempts`;
releases are free but not endless.
"""

from enum import StrEnum

from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core.randomness import Randomness
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.tasks import TaskRow


class EndReason(StrEnum):
    """Why a task ended without completing. Shown with the task."""

    MAX_ATTEMPTS = "MaxAttempts"
    """Failures and reclaims together reached the task's limit."""
    POISON = "Poison"
    """It was lost with its worker too often in a row: it probably kills its worker."""
    NO_RETRY = "NoRetry"
    """The worker said that another attempt would be pointless."""
    MAX_RELEASES = "MaxReleases"
    """It was given back too often."""
    EXPIRED = "Expired"
    """Its ttl ran out while it was queued."""
    CANCELLED = "Cancelled"
    SHED = "Shed"
    """Its queue was full, and a task of higher priority came."""
    RUN_STOPPED = "RunStopped"
    """Its run went over a cap or was cancelled."""


def backoff_seconds(rules: CapabilityConfig, spent: int, *, at_least: float = 0.0, jitter: float) -> float:
    """Return the wait after the n-th spent attempt: min(max, base * 2**(n-1)), then the jitter's share added.

    Never less than `at_least` (a worker's retry_after); that is spread by the jitter as well.
    """
    doublings = min(spent - 1, 64)  # beyond this any base is over any maximum, and floats stay finite
    plain = min(rules.max_backoff_seconds, rules.backoff_seconds * 2.0**doublings)
    return max(plain, at_least) * (1.0 + jitter)


def count_failure(row: TaskRow, *, retry: bool) -> EndReason | None:
    """Spend an attempt on a failure; return why the task is dead, if it is."""
    row.failures += 1
    row.poison = 0
    row.suspect = False
    if not retry:
        return EndReason.NO_RETRY
    return EndReason.MAX_ATTEMPTS if row.spent >= row.max_attempts else None


def count_release(row: TaskRow, settings: Settings) -> EndReason | None:
    """Count a release; return why the task is dead, if it is."""
    row.releases += 1
    return EndReason.MAX_RELEASES if row.releases >= settings.max_releases else None


def count_reclaim(row: TaskRow, *, draining: bool, accompanied: bool) -> EndReason | None:
    """Spend an attempt on a lost lease; return why the task is dead, if it is.

    A draining worker is no evidence against the task. Nor is one that was lost with other leases too: then the task
    becomes suspect, and its next worker will hold nothing else, so that the next loss is evidence.
    """
    row.reclaims += 1
    if accompanied and not draining:
        row.suspect = True
    elif not draining:
        row.poison += 1
        row.suspect = False
        if row.poison >= row.queue.rules.max_reclaims:
            return EndReason.POISON
    return EndReason.MAX_ATTEMPTS if row.spent >= row.max_attempts else None


def retry_delay(row: TaskRow, settings: Settings, rand: Randomness, *, at_least: float = 0.0) -> float:
    """Return how long a task waits after the attempt it has just spent."""
    jitter = settings.backoff_jitter * rand.random() if settings.backoff_jitter else 0.0
    return backoff_seconds(row.queue.rules, row.spent, at_least=at_least, jitter=jitter)
