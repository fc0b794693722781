"""KEDA with a horizontal pod autoscaler, as their documents and code describe them.

KEDA wakes a fleet of zero to one when its trigger shows work (every `pollingSeconds`), and puts it back to zero
when nothing has been there for `cooldownSeconds`. In between the autoscaler decides, every `syncSeconds`, from the
external metric with an average value: ceil(queue length / target), unless the present number is within the
tolerance; up by at most the greater of `upPods` and `upPercent` per period, down to the highest recommendation of
the window.
It does not know which pods are busy: the ReplicaSet picks them.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leadsman_local.simulator.pods import SimulatedPool
    from leadsman_local.simulator.scenario import KedaHpa
    from leadsman_local.simulator.world import World


@dataclass(slots=True)
class _Scaled:
    """One ScaledObject."""

    pool: "SimulatedPool"
    active_at: float = float("-inf")
    recommendations: deque[tuple[float, int]] = field(default_factory=deque)
    ups: deque[tuple[float, int]] = field(default_factory=deque)
    """When pods were added, and how many."""


class Keda:
    """Sizes every fleet of the world as KEDA and an autoscaler would."""

    def __init__(self, world: "World", rules: "KedaHpa") -> None:
        self._world = world
        self._rules = rules
        self._objects = [_Scaled(pool) for pool in world.pools.values()]
        if world.scenario.cluster.grace_seconds is None:
            for pool in world.pools.values():
                pool.grace_seconds = rules.grace_seconds

    def begin(self) -> None:
        """Make minReplicas and start both loops."""
        for each in self._objects:
            each.pool.scale(each.pool.scaled.spec.min_replicas)
        self._world.agenda.after(self._rules.polling_seconds, self._poll)
        # Nothing keeps the two loops in step; half a period apart is what is met on average.
        self._world.agenda.after(self._rules.sync_seconds / 2, self._sync)

    def changed(self, *, urgent: bool) -> None:
        """Do nothing: both loops look by the clock."""

    def length(self, each: _Scaled) -> int:
        """Return the queue length that the trigger reports."""
        stats = [self._world.broker.stats(name) for name in each.pool.scaled.spec.capabilities]
        return sum(found.ready + (found.leased if self._rules.count_in_flight else 0) for found in stats)

    def _poll(self) -> None:
        now = self._world.agenda.now
        for each in self._objects:
            spec, current = each.pool.scaled.spec, each.pool.fleet.replicas
            if self.length(each):
                each.active_at = now
                if current == 0:
                    self._scale(each, max(1, spec.min_replicas), "the trigger is active")
            elif current and not spec.min_replicas and now - each.active_at >= self._rules.cooldown_seconds:
                self._scale(each, 0, "the cooldown is over")
        self._world.agenda.after(self._rules.polling_seconds, self._poll)

    def _sync(self) -> None:
        for each in self._objects:
            if each.pool.fleet.replicas:
                self._autoscale(each)
        self._world.agenda.after(self._rules.sync_seconds, self._sync)

    def _autoscale(self, each: _Scaled) -> None:
        rules, now = self._rules, self._world.agenda.now
        spec, current = each.pool.scaled.spec, each.pool.fleet.replicas
        length = self.length(each)
        ratio = length / (rules.target_per_replica * current)
        wanted = current if abs(ratio - 1.0) <= rules.tolerance else math.ceil(length / rules.target_per_replica)
        wanted = min(max(wanted, 1, spec.min_replicas), spec.max_replicas)
        each.recommendations.append((now, wanted))
        while each.recommendations and each.recommendations[0][0] < now - rules.down_window_seconds:
            each.recommendations.popleft()
        if wanted < current:
            wanted = min(current, max(number for _, number in each.recommendations))
        while each.ups and each.ups[0][0] <= now - rules.up_period_seconds:
            each.ups.popleft()
        if wanted > current:
            before = current - sum(number for _, number in each.ups)
            allowed = max(before + rules.up_pods, math.ceil(before * (1 + rules.up_percent / 100)))
            wanted = min(wanted, max(allowed, current))
            if wanted > current:
                each.ups.append((now, wanted - current))
        if wanted != current:
            self._scale(each, wanted, f"{length} queued, {rules.target_per_replica:g} per replica")

    def _scale(self, each: _Scaled, replicas: int, why: str) -> None:
        current = each.pool.fleet.replicas
        self._world.recorder.moved(
            each.pool.scaled.name, current, replicas, "KedaHpa", f"{current} -> {replicas}: {why}"
        )
        each.pool.scale(replicas)
