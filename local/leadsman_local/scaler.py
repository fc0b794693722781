"""The scaler of one computer: the operator's own decisions and its scale-in protocol, without an API server.

Whoever drives it observes, calls `look`, and carries out what comes back; nothing is decided here.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace

from leadsman_local.fleet import Fleet
from leadsman_operator.api import WorkerPool, max_draining, pool_spec
from leadsman_operator.scaling import (
    Action,
    CapabilitySample,
    Decision,
    PoolMemory,
    PoolObservation,
    PoolView,
    ScalingMode,
    advance,
    decide,
    next_deadline,
    share,
)
from leadsman_operator.scaling.cordons import CordonAction, Cordons, cordon_busy, next_look
from leadsman_operator.scaling.model import PoolSpec
from leadsman_operator.scaling.scale_in import Idle, ScaleInAction, ScaleInEvent, ScaleInState, ScaleInView
from leadsman_operator.scaling.startup import StartupTimes

_ROUNDS = 8
"""Answers that one look may hand back to the protocol; more would mean that it asks for the same thing again."""


@dataclass(slots=True)
class ScaledPool:
    """One pool between two looks."""

    model: WorkerPool
    fleet: Fleet
    memory: PoolMemory = field(default_factory=PoolMemory)
    scale_in: ScaleInState = field(default_factory=Idle)
    startup: StartupTimes = field(default_factory=StartupTimes)
    cordons: Cordons = field(default_factory=Cordons)
    operations: int = 0
    spec: PoolSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = pool_spec(self.model)

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.model.metadata.name

    def change(self, model: WorkerPool) -> None:
        """Take a new spec; what is known of the demand stays."""
        self.model = model
        self.spec = pool_spec(model)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a pool found and decided."""

    pool: ScaledPool
    observation: PoolObservation
    decision: Decision


def look(
    pools: Mapping[str, ScaledPool],
    samples: Mapping[str, CapabilitySample],
    observations: Mapping[str, PoolObservation],
    now: float,
) -> dict[str, Look]:
    """Divide the work over all pools of the namespace and decide for each."""
    views = [PoolView(pool.spec, observations[name]) for name, pool in pools.items()]
    work = share(samples, views).work
    looks = {}
    for name, pool in pools.items():
        observation = observations[name].with_work(work.get(name, ()))
        decision, pool.memory = decide(pool.spec, observation, pool.memory, now)
        looks[name] = Look(pool, observation, decision)
    return looks


def scale_in(
    found: Look, fences: Mapping[str, str], cordons: Mapping[str, str], now: float
) -> Generator[tuple[ScaleInAction | CordonAction, ...], tuple[ScaleInEvent, ...], float | None]:
    """Bring the pool's scale-in as far as it gets now.

    Yields actions, takes the answers to them, and returns in how many seconds it wants to be called by itself.
    `fences` and `cordons`: pod UID -> operation, of all that are in force.
    """
    pool = found.pool
    decision = found.decision
    if pool.spec.mode is not ScalingMode.ACTIVE:
        decision = replace(decision, action=Action.HOLD)
    pool.operations += 1
    view = ScaleInView(
        spec=pool.spec,
        observation=found.observation,
        decision=decision,
        operation=f"{pool.name}.{pool.operations}",
        resource_version=str(pool.fleet.resource_version),
        fences=fences,
        replica_set=pool.fleet.status(),
        max_draining=max_draining(pool.model, found.observation.replicas),
        cordon_operation=f"{pool.name}.cordon",
        cordons=cordons,
    )
    pool.cordons, busy = cordon_busy(pool.cordons, view, now)
    if busy:
        yield busy
    events: tuple[ScaleInEvent, ...] = ()
    for _ in range(_ROUNDS):
        pool.scale_in, actions = advance(pool.scale_in, view, events, now)
        if not actions:
            break
        events = yield actions
        if not events:
            break
    times = (next_deadline(pool.scale_in, now), next_look(pool.cordons, now))
    return min((max(0.0, time - now) for time in times if time is not None), default=None)


def serving(pools: Iterable[ScaledPool], capability: str) -> list[ScaledPool]:
    """Return the pools whose workers take tasks of a capability."""
    return [pool for pool in pools if capability in pool.spec.capabilities]
