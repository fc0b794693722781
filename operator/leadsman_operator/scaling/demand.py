"""How many slots a capability's work asks for: the formulas, in whole milliseconds so that nothing rounds wrongly.

    k     = max(1, min(targetTasksPerSlot, (targetAge - min(P, targetAge / 2)) / S))   tasks one slot may answer for
    want  = ceil((L + W) / k)
    want  = the greater of that and L + ceil(W S / max(S, P, 1 s)), once the oldest task is over the age target
    slots = min(L + Q, max(L, want))

with L leased, W waiting, Q leasable, S the mean service time and P the pods' start-up time. While S is unknown,
every leasable task gets a slot of its own: slots = L + Q.
"""

from dataclasses import dataclass

from leadsman_operator.scaling.model import CapabilityWork, PoolSpec, ScalingPolicy


@dataclass(frozen=True, slots=True)
class SlotRule:
    """The part of the formula that does not depend on how much work there is."""

    spec: PoolSpec
    service_ms: int | None
    startup_ms: int
    aged: bool
    """The oldest task is over the age target."""

    def want(self, leased: int, waiting: int) -> int:
        """Give the slots wanted if all that waits were leasable; never falls when `waiting` grows."""
        total = leased + waiting
        if self.service_ms is None or self.spec.policy is ScalingPolicy.STEP:
            return total
        by_depth = _ceil(total, self.spec.target_tasks_per_slot)
        by_time = _ceil(total * self.service_ms, self.budget_ms)
        want = min(total, max(by_depth, by_time))
        if self.aged:
            want = max(want, self.catch_up(leased, waiting))
        return max(leased, want)

    def slots(self, leased: int, work: CapabilityWork) -> int:
        """Give the slots wanted of the work that may run."""
        return min(leased + work.leasable, self.want(leased, work.waiting))

    def catch_up(self, leased: int, waiting: int) -> int:
        """Give the slots that take up all that waits within one service or start-up time."""
        return leased + _ceil(waiting * (self.service_ms or 0), self.catch_up_ms)

    @property
    def budget_ms(self) -> int:
        """The time in which a slot must have taken up its last task: the age target less the start-up time."""
        target = self.spec.target_age_seconds * 1000
        return target - min(self.startup_ms, target // 2)

    @property
    def catch_up_ms(self) -> int:
        """The time in which an overdue queue is to be taken up."""
        return max(self.service_ms or 0, self.startup_ms, 1000)

    def formula(self, leased: int, work: CapabilityWork) -> str:
        """Say how `slots` came about, with the numbers."""
        slots = self.slots(leased, work)
        ceiling = f"at most L {leased} + Q {work.leasable} -> {slots} slots"
        if self.service_ms is None:
            return f"{work.name}: service time not known yet: L {leased} + Q {work.leasable} -> {slots} slots"
        target, seconds = self.spec.target_tasks_per_slot, self.service_ms / 1000
        by_time = self.budget_ms / self.service_ms if self.service_ms else float(target)
        k = max(1.0, min(float(target), by_time))
        text = (
            f"{work.name}: k = max(1, min({target}, {self.budget_ms / 1000:g} s / {seconds:g} s)) = {k:.3g};"
            f" ceil((L {leased} + W {work.waiting}) / k)"
        )
        if self.aged:
            text += (
                f" or, as the oldest is over {self.spec.target_age_seconds} s, L {leased}"
                f" + ceil({work.waiting} x {seconds:g} s / {self.catch_up_ms / 1000:g} s)"
            )
        return f"{text} = {self.want(leased, work.waiting)}; {ceiling}"


def slot_rule(
    spec: PoolSpec, service_seconds: float | None, oldest_age_seconds: float | None, startup_seconds: float
) -> SlotRule:
    """Prepare the formula for one capability on one pool."""
    return SlotRule(
        spec=spec,
        service_ms=None if service_seconds is None else round(service_seconds * 1000),
        startup_ms=round(startup_seconds * 1000),
        aged=oldest_age_seconds is not None and oldest_age_seconds > spec.target_age_seconds,
    )


def rate_slots(leases_per_minute: int, service_seconds: float) -> int:
    """Give the slots that a rate of leases keeps busy: max(1, ceil(r S)), never 0 while work waits."""
    return max(1, _ceil(leases_per_minute * round(service_seconds * 1000), 60_000))


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def replicas_for(slots: int, spec: PoolSpec) -> int:
    """Give the workers that have that many slots."""
    return _ceil(slots, spec.slots_per_worker)
