"""What the scaling decision reads and what it says: plain frozen data, no Kubernetes and no clock.

Times called `now`, `..._at` and `..._since` are readings of one monotonic clock of the caller, in seconds;
durations carry `_seconds`. A `Decision` explains itself: every number it used is in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from leadsman.reasons import Reason

DEFAULT_STARTUP_SECONDS = 30.0
"""P until a pool's own pods have been measured."""
SIGNAL_STALE_SECONDS = 15.0
"""A broker that was not heard for longer is lost; it says at least every few seconds that it is there."""
ZERO_SECONDS = 5.0
"""That there is no work at all must be seen twice, this far apart, before it is believed."""
IDLE_WHILE_WAITING_SECONDS = 30.0
"""Free slots beside waiting work are normal for a moment; for this long, more workers are not what is missing."""


class ScalingMode(StrEnum):
    """Whether decisions are carried out."""

    ACTIVE = "Active"
    OBSERVE = "Observe"
    PAUSED = "Paused"


class ScalingPolicy(StrEnum):
    """How the number of workers follows the work."""

    TARGET = "Target"
    STEP = "Step"


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """The part of a WorkerPool's spec that decides its size; defaults filled in."""

    name: str
    capabilities: tuple[str, ...]
    max_replicas: int
    min_replicas: int = 0
    slots_per_worker: int = 1
    mode: ScalingMode = ScalingMode.ACTIVE
    policy: ScalingPolicy = ScalingPolicy.TARGET
    target_tasks_per_slot: int = 5
    target_age_seconds: int = 60
    scale_out_max_step: int | None = None
    """How many workers may be starting at once; None: as many as are wanted."""
    scale_in_idle_seconds: int = 300
    scale_in_max_step: int | None = None
    """How many workers one scale-in takes away; None: as many as are not wanted, under `Step` one."""
    step_high_water_mark: int = 2
    step_add_replicas: int = 1
    headroom_slots: int = 0
    """Warm spare above what the work asks for."""
    signal_lost_floor: int | None = None
    """Workers that are kept while the broker is not heard; None: the fleet is held as it is."""
    min_schedule: str = ""
    """The schedule that `min_replicas` comes from at the moment; empty: the field of that name."""
    max_schedule: str = ""
    """The schedule that `max_replicas` comes from at the moment; empty: the field of that name."""

    @property
    def floor(self) -> str:
        """`min_replicas` and where it comes from, in words."""
        return _bound("minReplicas", self.min_replicas, self.min_schedule)

    @property
    def ceiling(self) -> str:
        """`max_replicas` and where it comes from, in words."""
        return _bound("maxReplicas", self.max_replicas, self.max_schedule)

    @property
    def max_slots(self) -> int:
        """What the pool may grow to."""
        return self.max_replicas * self.slots_per_worker


def _bound(field_name: str, replicas: int, schedule: str) -> str:
    return f"{field_name} is {replicas} by schedule {schedule}" if schedule else f"{field_name} is {replicas}"


@dataclass(frozen=True, slots=True)
class Background:
    """How much of a capability's work is of class background, and what that leaves free."""

    tasks: int = 0
    """Background tasks that are ready or in flight."""
    of: int = 0
    """All tasks that are ready or in flight."""
    reserve_percent: int = 0
    """Share of the workers' slots that background tasks leave free for interactive ones."""
    leased: int = 0
    """Background tasks that are in flight."""

    def may_start(self, waiting: int, slots: int) -> int:
        """Give how many of the `waiting` tasks may be leased now that there are so many slots for them.

        The broker lets max(1, slots - slots percent / 100) background tasks run; interactive ones it lets run.
        """
        if not self.reserve_percent:
            return waiting
        background = min(waiting, max(0, self.tasks - self.leased))
        limit = max(1, slots - slots * self.reserve_percent // 100)
        return waiting - background + min(background, max(0, limit - self.leased))

    def reserve(self, slots: int) -> int:
        """Give how many slots more than `slots` keep the reserve free beside the background part of them.

        At 100 % one background task runs however many workers there are: more of them would not help.
        """
        if not self.of or not self.tasks or not 0 < self.reserve_percent < 100:
            return 0
        background = -(-slots * min(self.tasks, self.of) // self.of)
        return -(-background * self.reserve_percent // (100 - self.reserve_percent))


@dataclass(frozen=True, slots=True)
class CapabilitySample:
    """The work of one capability, as the broker reported it.

    `oldest_age_seconds` is the age now: what the broker said plus the time since.
    """

    name: str
    waiting: int = 0
    """W: ready tasks that are not paused, also behind a cap."""
    leasable: int = 0
    """Q: how many more tasks could be in flight at once if workers were unlimited."""
    due_soon: int = 0
    """Delayed tasks due within the start-up time; in neither of the two above."""
    oldest_age_seconds: float | None = None
    service_seconds: float | None = None
    """S: mean service time; None while fewer than ten completions are known."""
    leases_per_minute: int | None = None
    """Tasks that may be handed out in a minute; None: no bound."""
    background: Background = Background()


@dataclass(frozen=True, slots=True)
class CapabilityWork:
    """One pool's part of a capability's work, as `share` gave it out."""

    name: str
    waiting: int = 0
    """W, with what is due soon."""
    leasable: int = 0
    """Q, with what is due soon."""
    due_soon: int = 0
    """How many of the waiting are not due yet."""
    oldest_age_seconds: float | None = None
    service_seconds: float | None = None
    rate_slots: int | None = None
    """The slots that the rate limit can keep busy, where that is why `leasable` is less than it was."""
    background: Background = Background()
    held_slots: int = 0
    """Free slots of the pool's workers that the interactive reserve keeps free beside what waits."""
    elsewhere: int = 0
    """Tasks of the capability that wait and are no part of this pool's: another's, or nobody's."""


@dataclass(frozen=True, slots=True)
class WorkerSample:
    """One worker process of a pool, as the broker knows it."""

    pod_uid: str
    slots: int
    capabilities: tuple[str, ...]
    leases: int = 0
    leases_by_capability: Mapping[str, int] = field(default_factory=dict)
    idle_seconds: float = 0.0
    """Since it last held a lease; 0 while it holds one."""
    last_heard_seconds: float = 0.0
    live: bool = True
    """Heard within a lease time."""
    draining: bool = False
    fenced: bool = False
    cordoned: bool = False
    """It keeps what it holds and gets nothing new."""


@dataclass(frozen=True, slots=True)
class PodSample:
    """One pod of a pool, as the API server knows it; a pod that has ended (Failed, Succeeded) is not listed."""

    uid: str
    name: str
    ready: bool = False
    ready_changed: str = ""
    """The Ready condition's lastTransitionTime, as a word that differs after every change; never read as a time."""
    terminating: bool = False
    """It has a deletionTimestamp."""
    failing: bool = False
    """It cannot start as it is: image, configuration or crash loop."""
    unschedulable: bool = False
    deletion_cost: int = 0

    @property
    def readiness(self) -> "Readiness":
        """Whether it is ready, and since which change: equal only if nothing happened in between."""
        return self.ready, self.ready_changed


Readiness = tuple[bool, str]


@dataclass(frozen=True, slots=True)
class PodName:
    """A pod, for an action on the API server: a patch must name the UID, lest it hits a namesake."""

    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class Signal:
    """How trustworthy the broker's numbers are at this moment."""

    epoch: str
    """Of the broker; a new one means it was restarted."""
    age_seconds: float
    """Since the broker was last heard: a snapshot, a delta or a tick."""
    unbroken_since: float
    """Since when this operator has led, this broker epoch has lasted and the signal was never stale."""


@dataclass(frozen=True)
class PoolObservation:
    """Everything known about a pool at one moment. `work` is the pool's part of each capability, from `share`."""

    replicas: int
    """The Deployment's spec.replicas: pods that are still starting are part of it."""
    signal: Signal | None = None
    """None: nothing was ever heard of the broker."""
    work: tuple[CapabilityWork, ...] = ()
    workers: tuple[WorkerSample, ...] = ()
    pods: tuple[PodSample, ...] = ()
    startup_seconds: float = DEFAULT_STARTUP_SECONDS
    """P: from the creation of a pod to its first call for work, measured."""
    rollout_in_progress: bool = False
    quota_exceeded: bool = False
    """The ReplicaSet could not create pods because of a quota."""
    conflict: bool = False
    """Somebody else writes the number of replicas."""
    unknown_capabilities: tuple[str, ...] = ()
    """Listed by the pool, but there is no such Capability."""
    unreported_capabilities: tuple[str, ...] = ()
    """There is such a Capability, but the broker's sample does not mention it: hold."""

    @cached_property
    def going(self) -> tuple[WorkerSample, ...]:
        """Workers that are going away: their pod is terminating, or they said so."""
        terminating = {pod.uid for pod in self.pods if pod.terminating}
        return tuple(worker for worker in self.workers if worker.draining or worker.pod_uid in terminating)

    @cached_property
    def staying(self) -> tuple[WorkerSample, ...]:
        """Workers that are not going away. A silent one is among them until its leases are reclaimed."""
        if not self.going:
            return self.workers
        going = {id(worker) for worker in self.going}
        return tuple(worker for worker in self.workers if id(worker) not in going)

    @cached_property
    def leased(self) -> Mapping[str, int]:
        """L by capability: leases of the workers that stay. What a draining one holds, it finishes."""
        leased: dict[str, int] = {}
        for worker in self.staying:
            if worker.leases_by_capability:
                for name, count in worker.leases_by_capability.items():
                    leased[name] = leased.get(name, 0) + count
        return leased

    def with_work(self, work: tuple[CapabilityWork, ...]) -> "PoolObservation":
        """Return it with its part of the work; what follows from workers and pods is not worked out again."""
        found = replace(self, work=work)
        found.__dict__.update({name: self.__dict__[name] for name in _OF_WORKERS if name in self.__dict__})
        return found


_OF_WORKERS = ("going", "staying", "leased")
"""What follows from the workers and pods alone."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The slots that were wanted at a time; the greatest of the idle window bounds scale-in."""

    at: float
    """The last moment at which it was wanted."""
    slots: int


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """What one decision hands to the next. Bounded; an empty one is right after a start (a full window passes)."""

    since: float | None = None
    """Since when the demand is known without a gap."""
    window: tuple[Demand, ...] = ()
    """Newest last, slots strictly falling."""
    zero_since: float | None = None
    """Since when no work at all was seen."""
    idle_while_waiting_since: float | None = None
    """Since when slots have stayed free beside work that waits."""
    quiet_since: float | None = None
    """`Step`: since when nothing has waited and nobody has left."""
    replicas: int | None = None
    """The replicas at the last decision."""


class Action(StrEnum):
    """What is to be done."""

    HOLD = "Hold"
    SCALE_OUT = "ScaleOut"
    SCALE_IN = "ScaleIn"


@dataclass(frozen=True, slots=True)
class Clamp:
    """One bound that changed the number, in the order in which it was applied."""

    reason: Reason
    before: int
    after: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class CapabilityInputs:
    """The numbers of one capability that went into a decision, and what came out."""

    name: str
    waiting: int
    """W, with what is due soon."""
    leasable: int
    """Q, with what is due soon."""
    leased: int
    """L."""
    service_seconds: float | None
    oldest_age_seconds: float | None
    slots: int
    formula: str
    limit: str = ""
    """What else keeps `slots` down, in words; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Decision:
    """How many replicas a pool should have, and why.

    `replicas` is what the Deployment should come to: above `current` it is to be written at once; below, it is what
    the scale-in protocol works towards. With `Action.HOLD` it equals `current`, except in Observe mode, where it is
    what would have been done.
    """

    action: Action
    current: int
    replicas: int
    recommended: int
    """What the work asks for now, before any clamp."""
    slots: int
    reason: Reason
    summary: str
    """One line a person can read, with the numbers."""
    formula: str = ""
    clamps: tuple[Clamp, ...] = ()
    inputs: tuple[CapabilityInputs, ...] = ()
    startup_seconds: float = DEFAULT_STARTUP_SECONDS
    signal_healthy: bool = True
    recheck_seconds: float | None = None
    """When time alone may change the answer; None: only a change of the observation can."""
