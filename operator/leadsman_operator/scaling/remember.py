"""What one sample leaves behind for the next decision."""

from leadsman_operator.scaling.census import serving_workers
from leadsman_operator.scaling.model import CapabilityWork, PoolMemory, PoolObservation, PoolSpec
from leadsman_operator.scaling.window import remember


def remembered(
    spec: PoolSpec, observation: PoolObservation, memory: PoolMemory, now: float, slots: int
) -> PoolMemory:
    """Give the memory after a sample that can be believed, in which `slots` are wanted."""
    waiting = any(work.waiting for work in observation.work)
    left = memory.replicas is not None and observation.replicas < memory.replicas
    quiet_since = now if memory.quiet_since is None or left else memory.quiet_since
    return PoolMemory(
        since=now if memory.since is None else memory.since,
        window=remember(memory.window, slots, now, spec.scale_in_idle_seconds),
        zero_since=_since(memory.zero_since, now, holds=slots == 0 and not waiting),
        idle_while_waiting_since=_since(memory.idle_while_waiting_since, now, holds=_is_unused(observation)),
        quiet_since=None if waiting else quiet_since,
        replicas=observation.replicas,
    )


def _since(before: float | None, now: float, *, holds: bool) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def _is_unused(observation: PoolObservation) -> bool:
    """Say whether tasks wait that could be leased while at least half of the slots that could take them are free.

    One stuck slot among many is no reason to let the queue grow: hence half.
    """
    return any(_unused(observation, work) for work in observation.work if work.leasable > work.due_soon)


def _unused(observation: PoolObservation, work: CapabilityWork) -> bool:
    serving = [worker for worker in serving_workers(observation) if work.name in worker.capabilities]
    free = sum(max(0, worker.slots - worker.leases) for worker in serving) - work.held_slots
    return free > 0 and 2 * free >= sum(worker.slots for worker in serving) - work.held_slots
