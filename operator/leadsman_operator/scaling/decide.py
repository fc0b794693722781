"""The decision: how many replicas a pool should have now, from its work, within its bounds, with the reason."""

from dataclasses import dataclass, replace

from leadsman.reasons import Reason
from leadsman_operator.scaling.census import Census, capabilities_not_served, census
from leadsman_operator.scaling.demand import replicas_for, slot_rule
from leadsman_operator.scaling.limits import Limiter
from leadsman_operator.scaling.model import (
    Action,
    CapabilityInputs,
    CapabilityWork,
    Clamp,
    Decision,
    PoolMemory,
    PoolObservation,
    PoolSpec,
    ScalingMode,
    ScalingPolicy,
)
from leadsman_operator.scaling.remember import remembered
from leadsman_operator.scaling.step import step_replicas
from leadsman_operator.scaling.trust import distrust
from leadsman_operator.scaling.words import summarise

_AGE_MARGIN_SECONDS = 0.001
"""The age target must be passed, not met."""


@dataclass(frozen=True, slots=True)
class _Demand:
    """What the work asks for, before any bound."""

    slots: int
    replicas: int
    inputs: tuple[CapabilityInputs, ...]
    formula: str
    reason: Reason
    """Why there should be more, if there should."""


def decide(
    spec: PoolSpec, observation: PoolObservation, memory: PoolMemory, now: float
) -> tuple[Decision, PoolMemory]:
    """Decide on a pool's size. Call it on every change of the observation and after `recheck_seconds`.

    The work must be the pool's share of this sample. Pure: the same arguments give the same answer.
    """
    if spec.mode is ScalingMode.PAUSED:
        return _still(spec, observation, Reason.POOL_PAUSED, "scaling.mode is Paused"), PoolMemory()
    trouble = distrust(observation)
    if observation.signal is None or trouble is not None:
        return _hold_on(spec, observation, trouble or ""), PoolMemory(replicas=observation.replicas)

    counts = census(observation)
    inputs = _inputs(spec, observation)
    memory = remembered(spec, observation, memory, now, _slots(spec, inputs))
    demand = _demand(spec, observation, memory, counts=counts, inputs=inputs, now=now)
    limiter = Limiter(
        spec=spec,
        observation=observation,
        signal=observation.signal,
        memory=memory,
        counts=counts,
        now=now,
        replicas=demand.replicas,
    )
    limiter.apply()
    action, replicas = _action(observation.replicas, limiter.replicas), limiter.replicas
    reason = _reason(spec, observation, counts=counts, demand=demand, action=action, clamps=limiter.clamps)
    if spec.mode is ScalingMode.OBSERVE:
        reason = Reason.OBSERVING if action is not Action.HOLD else reason
    decision = Decision(
        action=Action.HOLD if spec.mode is ScalingMode.OBSERVE else action,
        current=observation.replicas,
        replicas=replicas,
        recommended=demand.replicas,
        slots=demand.slots,
        reason=reason,
        summary="",
        formula=demand.formula,
        clamps=tuple(limiter.clamps),
        inputs=inputs,
        startup_seconds=observation.startup_seconds,
        recheck_seconds=_soonest(
            limiter.recheck_seconds(demand.replicas), _age_recheck(spec, inputs), _step_recheck(spec, memory, now)
        ),
    )
    return replace(decision, summary=summarise(spec, decision)), memory


def _still(spec: PoolSpec, observation: PoolObservation, reason: Reason, note: str) -> Decision:
    current = observation.replicas
    return Decision(
        action=Action.HOLD,
        current=current,
        replicas=current,
        recommended=current,
        slots=current * spec.slots_per_worker,
        reason=reason,
        summary=f"stays at {current}: {note}",
        startup_seconds=observation.startup_seconds,
    )


def _hold_on(spec: PoolSpec, observation: PoolObservation, trouble: str) -> Decision:
    """Hold, except that `minReplicas` is a promise that needs no signal, and a floor may be set for this case."""
    current, low, reason, note = observation.replicas, spec.min_replicas, Reason.AT_MIN_REPLICAS, spec.floor
    floor = spec.signal_lost_floor
    if floor is not None and floor > low and not _only_unreported(observation):
        low, reason, note = floor, Reason.SIGNAL_LOST, f"signalLostFloor is {floor}"
    low = min(low, spec.max_replicas)
    held = _still(spec, observation, Reason.SIGNAL_LOST, trouble)
    if current >= low or observation.conflict or spec.mode is not ScalingMode.ACTIVE:
        return replace(held, signal_healthy=False)
    return replace(
        held,
        action=Action.SCALE_OUT,
        replicas=low,
        clamps=(Clamp(reason, current, low, note),),
        summary=f"{current} -> {low}: {note}; {trouble}",
        signal_healthy=False,
    )


def _only_unreported(observation: PoolObservation) -> bool:
    """Say whether the broker is heard and merely does not know a queue yet: its signal is not lost."""
    return distrust(replace(observation, unreported_capabilities=())) is None


def _inputs(spec: PoolSpec, observation: PoolObservation) -> tuple[CapabilityInputs, ...]:
    """Work out every capability of the pool; one that only has leases left counts too."""
    leased = observation.leased
    found = []
    for work in observation.work:
        rule = slot_rule(spec, work.service_seconds, work.oldest_age_seconds, observation.startup_seconds)
        held = leased.get(work.name, 0)
        slots, formula = rule.slots(held, work), rule.formula(held, work)
        reserve = work.background.reserve(slots) if spec.policy is ScalingPolicy.TARGET else 0
        if reserve:
            formula += f"; + {reserve} so that {work.background.reserve_percent} % stay free of background tasks"
        found.append(
            CapabilityInputs(
                name=work.name,
                waiting=work.waiting,
                leasable=work.leasable,
                leased=held,
                service_seconds=work.service_seconds,
                oldest_age_seconds=work.oldest_age_seconds,
                slots=slots + reserve,
                formula=formula,
                limit=_rate_limit(work),
            )
        )
    known = {each.name for each in found}
    found += [
        CapabilityInputs(name, 0, 0, held, None, None, held, f"{name}: L {held} -> {held} slots")
        for name, held in sorted(leased.items())
        if name not in known
    ]
    return tuple(found)


def _rate_limit(work: CapabilityWork) -> str:
    if work.rate_slots is None:
        return ""
    return f"the rate limit of {work.name} keeps no more than {work.rate_slots} slots busy"


def _demand(
    spec: PoolSpec,
    observation: PoolObservation,
    memory: PoolMemory,
    *,
    counts: Census,
    inputs: tuple[CapabilityInputs, ...],
    now: float,
) -> _Demand:
    slots = _slots(spec, inputs)
    if spec.policy is ScalingPolicy.STEP:
        step = step_replicas(spec, observation, memory, counts=counts, inputs=inputs, now=now)
        return _Demand(step.replicas * spec.slots_per_worker, step.replicas, inputs, step.formula, step.reason)
    replicas = replicas_for(slots, spec)
    spare = f" with {spec.headroom_slots} of headroom" if spec.headroom_slots else ""
    formula = f"ceil({slots} slots{spare} / {spec.slots_per_worker} per worker) = {replicas}"
    aged = any(
        each.oldest_age_seconds is not None and each.oldest_age_seconds > spec.target_age_seconds for each in inputs
    )
    reason = Reason.AGE_ABOVE_TARGET if aged else Reason.DEPTH_ABOVE_TARGET
    if spec.headroom_slots and replicas_for(slots - spec.headroom_slots, spec) <= observation.replicas:
        reason = Reason.HEADROOM
    return _Demand(slots, replicas, inputs, formula, reason)


def _slots(spec: PoolSpec, inputs: tuple[CapabilityInputs, ...]) -> int:
    """Give the slots wanted, with the warm spare; `Step` counts tasks, not slots, and has none."""
    spare = spec.headroom_slots if spec.policy is ScalingPolicy.TARGET else 0
    return sum(each.slots for each in inputs) + spare


def _action(current: int, replicas: int) -> Action:
    if replicas > current:
        return Action.SCALE_OUT
    return Action.SCALE_IN if replicas < current else Action.HOLD


def _reason(
    spec: PoolSpec,
    observation: PoolObservation,
    *,
    counts: Census,
    demand: _Demand,
    action: Action,
    clamps: list[Clamp],
) -> Reason:
    """Name what made the number what it is: the last bound that changed it, else the work, else what hinders it."""
    if clamps and not (action is Action.SCALE_IN and clamps[-1].reason is Reason.SCALE_IN_WINDOW):
        return clamps[-1].reason
    if action is Action.SCALE_OUT:
        return demand.reason
    if action is Action.SCALE_IN:
        return Reason.WORKERS_NOT_NEEDED
    if counts.failing:
        return Reason.WORKERS_FAILING
    if observation.quota_exceeded:
        return Reason.QUOTA_EXCEEDED
    if observation.unknown_capabilities:
        return Reason.UNKNOWN_CAPABILITY
    if capabilities_not_served(spec, observation):
        return Reason.CAPABILITY_NOT_SERVED
    if counts.starting and any(each.waiting for each in demand.inputs):
        return Reason.WORKERS_STARTING
    if any(each.limit for each in demand.inputs):
        return Reason.RATE_LIMIT
    return Reason.STABLE


def _age_recheck(spec: PoolSpec, inputs: tuple[CapabilityInputs, ...]) -> float | None:
    """Give the time until the oldest task of a capability passes the age target."""
    ages = [each.oldest_age_seconds for each in inputs if each.waiting and each.oldest_age_seconds is not None]
    ahead = [spec.target_age_seconds - age + _AGE_MARGIN_SECONDS for age in ages if age <= spec.target_age_seconds]
    return min(ahead, default=None)


def _step_recheck(spec: PoolSpec, memory: PoolMemory, now: float) -> float | None:
    if spec.policy is not ScalingPolicy.STEP or memory.quiet_since is None:
        return None
    left = memory.quiet_since + spec.scale_in_idle_seconds - now
    return left if left > 0 else None


def _soonest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)
