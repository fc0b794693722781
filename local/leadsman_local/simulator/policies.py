"""Who sizes the simulated fleets: Leadsman's own decisions, or a fixed number."""

from typing import TYPE_CHECKING, Protocol

from leadsman.wire.workers import FenceOutcome
from leadsman_local.scaler import Look, look, scale_in
from leadsman_local.simulator.samples import WorkerSamples
from leadsman_operator.scaling import Action, PoolObservation, Signal
from leadsman_operator.scaling.cordons import Cordon, CordonAction, Uncordon
from leadsman_operator.scaling.scale_in import (
    ClearCost,
    Fence,
    FenceReplied,
    LowerScale,
    ReadScale,
    RecordWrongVictim,
    ScaleInAction,
    ScaleInEvent,
    ScaleOutcome,
    ScaleRead,
    ScaleReplied,
    SetDeletionCost,
    Unfence,
)

if TYPE_CHECKING:
    from leadsman_local.simulator.pods import SimulatedPool
    from leadsman_local.simulator.world import World

EPOCH = "simulated"


class Policy(Protocol):
    """What the world tells whoever sizes the fleets."""

    def begin(self) -> None:
        """Start."""
        ...

    def changed(self, *, urgent: bool) -> None:
        """Note that queues, workers or pods have changed."""
        ...


class Fixed:
    """The same number of workers all the time."""

    def __init__(self, world: "World", replicas: int | None) -> None:
        self._world = world
        self._replicas = replicas

    def begin(self) -> None:
        """Make them."""
        for pool in self._world.pools.values():
            pool.scale(pool.scaled.spec.max_replicas if self._replicas is None else self._replicas)

    def changed(self, *, urgent: bool) -> None:
        """Do nothing: the number stays."""


class Leadsman:
    """The operator: the real share, decision and scale-in protocol, on what the virtual broker pushes."""

    def __init__(self, world: "World", every_seconds: float) -> None:
        self._world = world
        self._every = every_seconds
        self._next_at = float("inf")
        self._looked_at = float("-inf")
        self._workers = WorkerSamples(world.broker, world.lease_seconds)

    def begin(self) -> None:
        """Look for the first time: minReplicas are made."""
        self._plan(0.0)

    def changed(self, *, urgent: bool) -> None:
        """Look soon; at once when a fleet of zero may have to wake."""
        wakes = urgent and any(not pool.fleet.replicas for pool in self._world.pools.values())
        self._plan(0.0 if wakes else max(0.0, self._looked_at + self._every - self._world.agenda.now))

    def look(self) -> dict[str, Look]:
        """Look at every fleet once, and do what comes of it."""
        world, now = self._world, self._world.agenda.now
        self._looked_at = now
        self._workers.refresh(world.broker.take_edges().workers)
        observations = {name: self._observation(pool) for name, pool in world.pools.items()}
        looks = look(
            {name: pool.scaled for name, pool in world.pools.items()},
            world.broker.samples(world.capability_names),
            observations,
            now,
        )
        waits: list[float] = []
        for name, found in looks.items():
            again = self._act(world.pools[name], found)
            waits += [wait for wait in (found.decision.recheck_seconds, again) if wait is not None]
        if waits:
            self._plan(max(min(waits), self._every, 0.001))
        return looks

    def _plan(self, seconds: float) -> None:
        at = self._world.agenda.now + seconds
        if at < self._next_at:
            self._next_at = at
            self._world.agenda.at(at, self._due)

    def _due(self) -> None:
        if self._world.agenda.now < self._next_at:
            return  # an appointment that an earlier one has replaced
        self._next_at = float("inf")
        self.look()

    def _observation(self, pool: "SimulatedPool") -> PoolObservation:
        return PoolObservation(
            replicas=pool.fleet.replicas,
            signal=Signal(EPOCH, 0.0, 0.0),
            workers=self._workers.of(pool.scaled.name),
            pods=pool.fleet.samples(),
            startup_seconds=pool.scaled.startup.seconds,
        )

    def _act(self, pool: "SimulatedPool", found: Look) -> float | None:
        again = self._step_scale_in(pool, found)
        decision = found.decision
        if decision.action is Action.SCALE_OUT:
            self._world.recorder.decided(found)
            pool.scale(decision.replicas)
        return again

    def _step_scale_in(self, pool: "SimulatedPool", found: Look) -> float | None:
        broker = self._world.broker
        steps = scale_in(found, broker.fences(), broker.cordons(), self._world.agenda.now)
        try:
            actions = next(steps)
            while True:
                answers = [answer for action in actions if (answer := self._carry_out(pool, found, action))]
                actions = steps.send(tuple(answers))
        except StopIteration as end:
            wait: float | None = end.value
            return wait

    def _carry_out(
        self, pool: "SimulatedPool", found: Look, action: ScaleInAction | CordonAction
    ) -> ScaleInEvent | None:
        broker = self._world.broker
        match action:
            case Fence():
                results = broker.fence(action.operation, action.pod_uids, action.ttl_seconds)
                fenced = frozenset(each.pod_uid for each in results if each.outcome is FenceOutcome.FENCED)
                pool.follow_broker()
                return FenceReplied(action.operation, EPOCH, fenced)
            case Unfence():
                broker.unfence(action.operation, action.pod_uids)
                pool.follow_broker()
            case SetDeletionCost(pods=pods):
                pool.fleet.mark(pods, victim=True)
                self._world.agenda.after(0.0, lambda: self.changed(urgent=False))
            case ClearCost(pods=pods):
                pool.fleet.mark(pods, victim=False)
            case LowerScale():
                if not pool.fleet.lower(action.to_replicas, action.resource_version):
                    return ScaleReplied(action.operation, ScaleOutcome.CONFLICT)
                self._world.recorder.decided(found, to=action.to_replicas)
                pool.follow()
                return ScaleReplied(action.operation, ScaleOutcome.LOWERED)
            case ReadScale():
                return ScaleRead(action.operation, pool.fleet.replicas)
            case Cordon():
                broker.cordon(action.operation, action.pod_uids, action.ttl_seconds)
                pool.follow_broker()
            case Uncordon():
                broker.uncordon(action.operation, action.pod_uids)
                pool.follow_broker()
            case RecordWrongVictim():
                self._world.recorder.wrong_victims += 1
        return None
