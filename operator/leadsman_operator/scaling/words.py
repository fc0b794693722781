"""A decision in one line: the move, the work, the arithmetic, and what bounded it."""

from leadsman_operator.scaling.model import Decision, PoolSpec, ScalingMode, ScalingPolicy


def summarise(spec: PoolSpec, decision: Decision) -> str:
    """Write the line. The same numbers are in the decision's fields."""
    parts = [f"{_move(spec, decision)}: {_work(spec, decision)}"]
    parts += [each.limit for each in decision.inputs if each.limit]
    parts += [clamp.note for clamp in decision.clamps if clamp.note]
    return "; ".join(parts)


def _move(spec: PoolSpec, decision: Decision) -> str:
    if decision.replicas == decision.current:
        return f"stays at {decision.current}"
    move = f"{decision.current} -> {decision.replicas}"
    return f"would go {move}" if spec.mode is ScalingMode.OBSERVE else move


def _work(spec: PoolSpec, decision: Decision) -> str:
    waiting = sum(each.waiting for each in decision.inputs)
    leased = sum(each.leased for each in decision.inputs)
    if not waiting and not leased:
        spare = spec.headroom_slots if spec.policy is ScalingPolicy.TARGET else 0
        return f"no work, {_plural(spare, 'slot')} of headroom" if spare else "no work"
    ages = [each.oldest_age_seconds for each in decision.inputs if each.oldest_age_seconds is not None]
    oldest = f" (oldest {max(ages):.0f} s)" if waiting and ages else ""
    wanted = _plural(decision.recommended, "worker")
    slots = _plural(decision.slots, "slot")
    headroom = f" (headroom {spec.headroom_slots})" if spec.headroom_slots else ""
    return f"{waiting} waiting{oldest}, {leased} in flight, {slots} wanted{headroom} = {wanted}"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
