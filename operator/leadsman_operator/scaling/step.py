"""The Step policy: the high-water mark of a queue, a few workers at a time.

From `highWaterMark` waiting tasks on, `addReplicas` workers are added, and the next ones when these are ready. When
nothing has waited for the idle window, `scaleIn.maxStep` (one) goes, and the window starts anew. A fleet of zero
wakes for any task, or a queue below the mark would wait for ever.
"""

from dataclasses import dataclass

from leadsman.reasons import Reason
from leadsman_operator.scaling.census import Census
from leadsman_operator.scaling.demand import replicas_for
from leadsman_operator.scaling.model import CapabilityInputs, PoolMemory, PoolObservation, PoolSpec


@dataclass(frozen=True, slots=True)
class StepDemand:
    """The number of workers after this step, before any bound."""

    replicas: int
    formula: str
    reason: Reason


def step_replicas(
    spec: PoolSpec,
    observation: PoolObservation,
    memory: PoolMemory,
    *,
    counts: Census,
    inputs: tuple[CapabilityInputs, ...],
    now: float,
) -> StepDemand:
    """Take one step, or none. `memory` is as it is after this sample."""
    current, mark = observation.replicas, spec.step_high_water_mark
    waiting = sum(each.waiting for each in inputs)
    usable = replicas_for(sum(each.leased + each.leasable for each in inputs), spec)
    busy = replicas_for(sum(each.leased for each in inputs), spec)
    if waiting >= mark or (waiting and current == 0):
        if counts.starting:
            return StepDemand(current, f"{waiting} wait, {counts.starting} are starting", Reason.WORKERS_STARTING)
        replicas = max(current, min(current + spec.step_add_replicas, usable))
        formula = f"{waiting} wait (mark {mark}): {current} + {spec.step_add_replicas}, at most {usable} of use"
        return StepDemand(replicas, f"{formula} = {replicas}", Reason.HIGH_WATER_MARK)
    quiet = 0.0 if memory.quiet_since is None else now - memory.quiet_since
    if memory.quiet_since is not None and quiet >= spec.scale_in_idle_seconds:
        replicas = max(busy, current - (spec.scale_in_max_step or 1), 0)
        return StepDemand(
            min(current, replicas), f"nothing has waited for {quiet:.0f} s", Reason.WORKERS_NOT_NEEDED
        )
    return StepDemand(current, f"{waiting} wait (mark {mark})", Reason.STABLE)
