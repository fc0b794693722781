"""What a simulation is remembered for: counters, waiting times, curves and decisions."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leadsman_broker.core.results import Granted

if TYPE_CHECKING:
    from leadsman_local.scaler import Look
    from leadsman_local.simulator.world import World

MAX_DECISIONS = 10_000


@dataclass(frozen=True, slots=True)
class Move:
    """One change of a fleet's size."""

    at: float
    pool: str
    before: int
    after: int
    reason: str
    summary: str


@dataclass(slots=True)
class Point:
    """One point of the curves."""

    at: float
    depth: int = 0
    delayed: int = 0
    oldest_age: float = 0.0
    replicas: int = 0
    ready: int = 0
    busy: int = 0
    leased: int = 0
    refused: int = 0
    cost_micros: float = 0.0
    tenants: dict[str, int] = field(default_factory=dict)
    """Tenant -> tasks in flight."""
    blocked: dict[str, int] = field(default_factory=dict)
    """Why -> ready tasks that no worker may take: a budget, a cap, a ceiling."""


class Recorder:
    """Filled while a simulation runs."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.points: list[Point] = []
        self.waits: dict[str, list[float]] = defaultdict(list)
        """Capability -> seconds from acceptance to the first delivery."""
        self.tenant_waits: dict[str, list[float]] = defaultdict(list)
        self.tenant_completed: dict[str, int] = defaultdict(int)
        self.moves: list[Move] = []
        self.submitted = 0
        self.refused = 0
        self.completed = 0
        self.first_deliveries = 0
        self.deliveries = 0
        self.busy_seconds = 0.0
        self.wasted_seconds = 0.0
        self.tokens = 0.0
        self.cost_micros = 0.0
        self.wasted_cost_micros = 0.0
        self.pod_seconds = 0.0
        self.crashes = 0
        self.evicted_busy = 0
        """Pods that were told to end while they held tasks."""
        self.killed_busy = 0
        """Of these, those whose grace was over before their tasks were."""
        self.wrong_victims = 0
        self._tenants: dict[str, int] = defaultdict(int)
        self._refused_since = 0

    def submit(self, accepted: int, refused: int) -> None:
        """Note what became of a submission."""
        self.submitted += accepted + refused
        self.refused += refused
        self._refused_since += refused

    def began(self, granted: Granted, now: float) -> None:
        """Note a delivery."""
        self.deliveries += 1
        if granted.tenant:
            self._tenants[granted.tenant] += 1
        if granted.epoch == 1:
            self.first_deliveries += 1
            self.waits[granted.capability].append(granted.age_seconds)
            if granted.tenant:
                self.tenant_waits[granted.tenant].append(granted.age_seconds)

    def worked(self, granted: Granted, seconds: float, *, tokens: float, cost_micros: float, wasted: bool) -> None:
        """Note the end of an attempt, however it ended."""
        self.busy_seconds += seconds
        self.tokens += tokens
        self.cost_micros += cost_micros
        if wasted:
            self.wasted_seconds += seconds
            self.wasted_cost_micros += cost_micros
        if granted.tenant:
            self._tenants[granted.tenant] -= 1

    def done(self, granted: Granted) -> None:
        """Note a completed task."""
        self.completed += 1
        if granted.tenant:
            self.tenant_completed[granted.tenant] += 1

    def pod_ended(self, seconds: float) -> None:
        """Note the whole life of a pod that has ended."""
        self.pod_seconds += seconds

    def decided(self, look: "Look", to: int | None = None) -> None:
        """Note a change of size."""
        decision = look.decision
        self.moved(
            look.pool.name, decision.current, decision.replicas if to is None else to,
            decision.reason.value, decision.summary,
        )  # fmt: skip

    def moved(self, pool: str, before: int, after: int, reason: str, summary: str) -> None:
        """Note a change of size, whoever made it."""
        if len(self.moves) < MAX_DECISIONS:
            self.moves.append(Move(self._world.agenda.now, pool, before, after, reason, summary))

    def sample(self) -> None:
        """Add a point to the curves."""
        world = self._world
        point = Point(world.agenda.now)
        for name in world.capability_names:
            stats = world.broker.stats(name)
            point.depth += stats.ready
            point.delayed += stats.delayed
            point.leased += stats.leased
            point.oldest_age = max(point.oldest_age, stats.oldest_age_seconds or 0.0)
            for reason, count in stats.blocked.items():
                point.blocked[reason] = point.blocked.get(reason, 0) + count
        for pool in world.pools.values():
            point.replicas += pool.fleet.replicas
            point.ready += sum(pod.ready for pod in pool.fleet.pods.values())
            point.busy += sum(bool(worker.held) for worker in pool.workers())
        point.refused, self._refused_since = self._refused_since, 0
        point.cost_micros = self.cost_micros
        point.tenants = {tenant: count for tenant, count in sorted(self._tenants.items()) if count}
        self.points.append(point)

    def close(self) -> None:
        """Count what is still running at the end."""
        now = self._world.agenda.now
        for pool in self._world.pools.values():
            self.pod_seconds += sum(now - pod.created_at for pod in pool.fleet.pods.values())
            for worker in pool.workers():
                self.busy_seconds += sum(now - attempt.began_at for attempt in worker.held.values())
