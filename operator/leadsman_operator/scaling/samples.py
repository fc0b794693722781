"""From the broker's numbers on the wire to what decisions are made from."""

from leadsman.wire.leases import WorkerState
from leadsman.wire.stats import CapabilityStats, WorkerStats
from leadsman_operator.scaling.model import Background, CapabilitySample, WorkerSample


def capability_sample(
    stats: CapabilityStats,
    elapsed_seconds: float = 0.0,
    *,
    leases_per_minute: int | None = None,
    reserve_percent: int = 0,
) -> CapabilitySample:
    """Read one queue's numbers, `elapsed_seconds` after the broker said them: its oldest task has aged since.

    The rate and the interactive reserve are the Capability's rules.
    """
    age = stats.oldest_age_seconds
    return CapabilitySample(
        name=stats.name,
        waiting=stats.waiting,
        leasable=stats.leasable,
        due_soon=stats.due_soon,
        oldest_age_seconds=None if age is None else age + elapsed_seconds,
        service_seconds=stats.service_seconds,
        leases_per_minute=leases_per_minute,
        background=Background(
            tasks=stats.background_ready + stats.background_leased,
            of=stats.ready + stats.leased,
            reserve_percent=reserve_percent,
            leased=stats.background_leased,
        ),
    )


def worker_sample(stats: WorkerStats, lease_seconds: float, elapsed_seconds: float = 0.0) -> WorkerSample:
    """Read one worker's numbers, `elapsed_seconds` after the broker said them.

    It is live when it was heard within `lease_seconds`. The broker says a worker again when it hears it, so silence
    shows as numbers that grow old.
    """
    last_heard_seconds = stats.last_heard_seconds + elapsed_seconds
    return WorkerSample(
        pod_uid=stats.pod_uid,
        slots=stats.slots,
        capabilities=tuple(stats.capabilities),
        leases=stats.leases,
        leases_by_capability=dict(stats.leases_by_capability),
        idle_seconds=0.0 if stats.leases else stats.idle_seconds + elapsed_seconds,
        last_heard_seconds=last_heard_seconds,
        live=last_heard_seconds <= lease_seconds,
        draining=stats.state in {WorkerState.DRAINING, WorkerState.DRAIN},
        fenced=stats.state is WorkerState.FENCED,
        cordoned=stats.state is WorkerState.CORDONED,
    )
