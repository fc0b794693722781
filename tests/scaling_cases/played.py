"""Fleets played second by second through `share` and `decide`, with all that may keep workers from being of use."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import (
    Background,
    CapabilitySample,
    Decision,
    PodSample,
    PoolMemory,
    PoolObservation,
    PoolSpec,
    WorkerSample,
)
from leadsman_operator.scaling.share import PoolView, share

from .build import START, healthy

STARTUP_SECONDS = 40.0


class Move(NamedTuple):
    """A change of a pool's replicas."""

    pool: str
    before: int
    after: int
    reason: str


@dataclass(slots=True)
class _Pod:
    name: str
    born: float
    task: str | None = None
    """The capability of the task that its worker holds; none ever ends."""


@dataclass
class Played:
    """Pools with one slot for each worker, and the tasks that wait by capability. No task ends."""

    specs: tuple[PoolSpec, ...]
    waiting: dict[str, int]
    fails: Callable[[str, int], bool] = lambda _pool, _number: False
    """Whether the pod with this number, of those that the pool has, cannot start."""
    handles: Collection[str] | None = None
    """What the workers' image has handlers for; all by default."""
    quota: int | None = None
    """Pods that each pool may have."""
    reserve_percent: int = 0
    """With a reserve all tasks are background work."""
    now: float = START
    moves: list[Move] = field(default_factory=list)
    decisions: dict[str, Decision] = field(default_factory=dict)
    observed: dict[str, PoolObservation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pods: dict[str, list[_Pod]] = {spec.name: [] for spec in self.specs}
        self._memory = {spec.name: PoolMemory() for spec in self.specs}
        self._born = 0

    def play(self, seconds: int, arrive: Callable[[int], None] = lambda _second: None) -> None:
        """Play so many seconds; `arrive(second)` may add waiting tasks."""
        for second in range(seconds):
            arrive(second)
            self._hand_out()
            views = [PoolView(spec, self._observe(spec)) for spec in self.specs]
            shares = share({name: self._sample(name) for name in self.waiting}, views)
            for view in views:
                name = view.spec.name
                observation = self.observed[name] = view.observation.with_work(shares.work[name])
                decision, self._memory[name] = decide(view.spec, observation, self._memory[name], self.now)
                self.decisions[name] = decision
                self._resize(name, decision)
            self.now += 1

    def running(self, pool: str) -> int:
        """How many of a pool's workers hold a task."""
        return sum(pod.task is not None for pod in self._pods[pool])

    def _observe(self, spec: PoolSpec) -> PoolObservation:
        pods = self._pods[spec.name]
        made = pods[: self.quota]
        return PoolObservation(
            replicas=len(pods),
            signal=healthy(),
            workers=tuple(self._worker(spec, pod) for pod in self._ready(spec.name)),
            pods=tuple(self._sampled(spec.name, number, pod) for number, pod in enumerate(made)),
            startup_seconds=STARTUP_SECONDS,
            quota_exceeded=len(made) < len(pods),
        )

    def _sampled(self, pool: str, number: int, pod: _Pod) -> PodSample:
        fails = self.fails(pool, number) and self.now - pod.born > 5
        return PodSample(pod.name, pod.name, ready=pod in self._ready(pool), failing=fails)

    def _worker(self, spec: PoolSpec, pod: _Pod) -> WorkerSample:
        held = {pod.task: 1} if pod.task else {}
        takes = tuple(name for name in spec.capabilities if self.handles is None or name in self.handles)
        return WorkerSample(pod.name, 1, takes, len(held), held, idle_seconds=0.0 if held else 1.0)

    def _ready(self, pool: str) -> list[_Pod]:
        made = self._pods[pool][: self.quota]
        old = [(number, pod) for number, pod in enumerate(made) if self.now - pod.born >= STARTUP_SECONDS]
        return [pod for number, pod in old if not self.fails(pool, number)]

    def _hand_out(self) -> None:
        for name in self.waiting:
            able = [pod for spec in self.specs for pod in self._able(spec, name)]
            # As the broker has it: what the reserve leaves of the slots, at least one.
            limit = max(1, len(able) - len(able) * self.reserve_percent // 100)
            for pod in able:
                if self.waiting[name] and pod.task is None and self._leased(name) < limit:
                    pod.task = name
                    self.waiting[name] -= 1

    def _able(self, spec: PoolSpec, name: str) -> list[_Pod]:
        takes = name in spec.capabilities and (self.handles is None or name in self.handles)
        return self._ready(spec.name) if takes else []

    def _leased(self, name: str) -> int:
        return sum(pod.task == name for pods in self._pods.values() for pod in pods)

    def _sample(self, name: str) -> CapabilitySample:
        waiting, leased = self.waiting[name], self._leased(name)
        background = waiting + leased if self.reserve_percent else 0
        part = Background(background, waiting + leased, self.reserve_percent, leased if background else 0)
        return CapabilitySample(name, waiting, waiting, background=part)

    def _resize(self, pool: str, decision: Decision) -> None:
        pods = self._pods[pool]
        if decision.replicas == len(pods):
            return
        self.moves.append(Move(pool, len(pods), decision.replicas, decision.reason.value))
        for pod in [pod for pod in reversed(pods) if pod.task is None][: max(0, len(pods) - decision.replicas)]:
            pods.remove(pod)
        for _ in range(decision.replicas - len(pods)):
            self._born += 1
            pods.append(_Pod(f"{pool}-{self._born}", self.now))
