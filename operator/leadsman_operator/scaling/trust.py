"""Whether the numbers may be acted on. A lost, stale or odd signal holds the fleet as it is."""

import math

from leadsman_operator.scaling.model import (
    SIGNAL_STALE_SECONDS,
    CapabilitySample,
    CapabilityWork,
    PoolObservation,
    WorkerSample,
)

MAX_TASKS = 1_000_000_000
"""More than any broker holds: a number beyond it is a mistake."""


def distrust(observation: PoolObservation) -> str | None:
    """Say why the numbers cannot be acted on, or None when they can."""
    signal = observation.signal
    if signal is None:
        return "the broker was never heard"
    if not math.isfinite(signal.age_seconds) or signal.age_seconds > SIGNAL_STALE_SECONDS:
        return f"the broker was last heard {signal.age_seconds:.0f} s ago"
    if observation.unreported_capabilities:
        return f"the broker says nothing of {', '.join(observation.unreported_capabilities)}"
    for work in observation.work:
        if not plausible(work):
            return f"the numbers of {work.name} make no sense"
    for worker in observation.workers:
        if not _believable(worker):
            return f"the numbers of worker {worker.pod_uid} make no sense"
    return None


def plausible(work: CapabilityWork | CapabilitySample) -> bool:
    """Say whether the numbers can be true at all."""
    return (
        all(_count(number) for number in (work.waiting, work.leasable, work.due_soon))
        and _duration(work.oldest_age_seconds)
        and _duration(work.service_seconds)
    )


def _believable(worker: WorkerSample) -> bool:
    # Written out: this is asked of every worker at every look.
    slots, leases = worker.slots, worker.leases
    if not (isinstance(slots, int) and 0 <= slots <= MAX_TASKS):
        return False
    if not (isinstance(leases, int) and 0 <= leases <= MAX_TASKS):
        return False
    held = worker.leases_by_capability
    return 0.0 <= worker.idle_seconds < math.inf and (not held or all(map(_count, held.values())))


def _count(number: object) -> bool:
    return isinstance(number, int) and 0 <= number <= MAX_TASKS


def _duration(seconds: float | None) -> bool:
    return seconds is None or (math.isfinite(seconds) and seconds >= 0)
