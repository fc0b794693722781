"""Scale-in as states with deadlines: what the protocol sees, what it asks to be done, and where it stands.

The ReplicaSet controller chooses which pods go, from a cache that lags. So the workers that are to go are fenced
at the broker first (which succeeds only while they hold no lease), their readiness falls, and only when the
ReplicaSet's own status shows that its controller has seen that - not-ready pods are deleted first - is the scale
lowered. The transitions are in `leadsman_operator.scaling.advance`; the caller carries out the actions and reports
the replies.

    Idle --Fence--> Fencing --fenced--> Evidence --seen--> Lowering --lowered--> Verifying --gone--> Idle
                       |                   |                  |
                       +--- pre-empted, late, refused --------+---> Idle, with Unfence and ClearCost

A lowering without an answer may have gone through, or may still do so: it is verified like one that has.

When all pods are to go, nobody chooses, and Fencing leads to Lowering at once.

Every state but Idle has a deadline. Nothing of an operation has to survive a restart: fences and costs that an Idle
protocol finds on its pods are strays, and it lifts them as soon as the controller has nobody left to delete.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadsman_operator.scaling.model import Decision, PodName, PoolObservation, PoolSpec, Readiness

VICTIM_DELETION_COST = -1000
"""Value of `controller.kubernetes.io/pod-deletion-cost` on a pod that is to go; a pod without one counts as 0."""

FENCE_TTL_SECONDS = 300.0
"""Far above the sum of the deadlines: a fence never ends in the middle of an operation."""
FENCE_DEADLINE_SECONDS = 10.0
EVIDENCE_DEADLINE_SECONDS = 30.0
LOWER_DEADLINE_SECONDS = 15.0
VERIFY_DEADLINE_SECONDS = 30.0
"""After that the fences are renewed and the waiting goes on: a controller that is late still chooses."""
UNANSWERED_SECONDS = 60.0
"""How long a write without an answer may still take effect: the API server's own limit for a request."""
SETTLE_SECONDS = 2.0
"""No operation starts sooner after the replicas changed, or a pod came, went or changed its readiness.

A count is evidence only if it has one possible cause. If a pod had just failed a probe and recovered, a controller
that lags behind that would show the same count as one that has seen the fenced pod. Its cache has to be less than
this far behind; measured under churn, 0.1 s was enough.
"""
MISSING_SECONDS = 30.0
"""How long pods may be missing before it is believed that they are not made: until then they may exist unseen."""
RACE_RETRY_SECONDS = 1.0
"""Before the next operation when one lost a race: a worker took a task, another pod changed."""
RETRY_SECONDS = 5.0
"""Before the next operation when one failed; doubled for every further failure. Also between two equal requests."""
MAX_RETRY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ReplicaSetSample:
    """The ReplicaSet that owns the pods, as its controller last reported it."""

    replicas: int
    """spec.replicas"""
    observed: bool
    """status.observedGeneration has reached metadata.generation."""
    current_replicas: int
    """status.replicas: the pods it counts, without those that have a deletionTimestamp."""
    ready_replicas: int
    """status.readyReplicas"""


@dataclass(frozen=True, slots=True)
class ScaleInView:
    """All that one step of the protocol looks at."""

    spec: PoolSpec
    observation: PoolObservation
    decision: Decision
    """Made from this observation. Anything but `ScaleIn` pre-empts an operation."""
    operation: str
    """A fresh id, used if an operation starts in this step."""
    resource_version: str
    """Of the Deployment `observation.replicas` was read from; never older than a write that was reported done."""
    fences: Mapping[str, str] = field(default_factory=dict)
    """Pod UID -> operation, of every fence in force at the broker (other pools' fences do not matter)."""
    replica_set: ReplicaSetSample | None = None
    """None while there is none, or more than one has pods (a rollout)."""
    max_draining: int = 1
    """While so many workers that are going away still hold leases, no operation starts."""
    cordon_operation: str = ""
    """The one id of all cordons that this pool's scale-in sets."""
    cordons: Mapping[str, str] = field(default_factory=dict)
    """Pod UID -> operation, of every cordon in force at the broker (other pools' cordons do not matter)."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Call the broker's fence and report `FenceReplied`. A failed call is not reported: the deadline ends it."""

    operation: str
    pod_uids: tuple[str, ...]
    ttl_seconds: float = FENCE_TTL_SECONDS


@dataclass(frozen=True, slots=True)
class SetDeletionCost:
    """Annotate the pods with `VICTIM_DELETION_COST`. Asked again while the pods do not show it."""

    pods: tuple[PodName, ...]


@dataclass(frozen=True, slots=True)
class LowerScale:
    """Write `/scale`, only if this is still the leader; report `ScaleReplied`.

    The write must be done or given up within `LOWER_DEADLINE_SECONDS`. Nothing is reported when no answer came.
    """

    operation: str
    from_replicas: int
    to_replicas: int
    resource_version: str
    """A precondition of the write."""


@dataclass(frozen=True, slots=True)
class ReadScale:
    """Read the Deployment from the API server itself and report `ScaleRead`; a failed read is not reported."""

    operation: str


@dataclass(frozen=True, slots=True)
class Unfence:
    """Lift fences. Asked again while the view shows them."""

    operation: str
    pod_uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClearCost:
    """Remove the annotation. Asked again while the pods show it."""

    pods: tuple[PodName, ...]


@dataclass(frozen=True, slots=True)
class RecordWrongVictim:
    """A pod that was not fenced went, and its worker held leases: count it and say so."""

    operation: str
    pod: PodName
    leases: int


ScaleInAction = Fence | SetDeletionCost | LowerScale | ReadScale | Unfence | ClearCost | RecordWrongVictim


@dataclass(frozen=True, slots=True)
class FenceReplied:
    """The broker's answer: the pod UIDs it fenced. The others hold leases or are another operation's."""

    operation: str
    epoch: str
    fenced: frozenset[str]


class ScaleOutcome(StrEnum):
    """What became of a write of `/scale`."""

    LOWERED = "lowered"
    CONFLICT = "conflict"
    """The precondition failed, or another manager owns the field."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ScaleReplied:
    """The API server's answer."""

    operation: str
    outcome: ScaleOutcome


@dataclass(frozen=True, slots=True)
class ScaleRead:
    """What the API server said when it was asked."""

    operation: str
    replicas: int


ScaleInEvent = FenceReplied | ScaleReplied | ScaleRead


@dataclass(frozen=True, slots=True)
class Idle:
    """No operation. Strays are lifted; the next operation starts at `not_before` at the earliest."""

    not_before: float = 0.0
    failures: int = 0
    """Operations in a row that came to nothing by themselves."""
    avoid: frozenset[str] = frozenset()
    """Pods whose readiness did not follow their fence: chosen last."""
    lifted_at: float | None = None
    """When strays were last asked to be lifted."""
    replicas: int | None = None
    readiness: Mapping[str, Readiness] = field(default_factory=dict)
    """Of every pod, as last seen."""
    unchanged_since: float = 0.0
    """When the replicas, a pod or a readiness last changed."""
    waits_for: str = ""
    """Why no operation has started although workers are not needed; for people."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One attempt to take workers away, as it was planned."""

    id: str
    epoch: str
    """Of the broker that is asked to fence."""
    from_replicas: int
    target: int
    before: Mapping[str, Readiness]
    """Readiness of every pod at the start, when the ReplicaSet's status agreed with it."""
    victims: tuple[PodName, ...] = ()
    """Those that are to go, in order."""
    guards: tuple[PodName, ...] = ()
    """Pods that are not ready and so would go before a ready victim: fenced too, so that none takes a lease
    meanwhile, and spared if the controller leaves them."""
    failures: int = 0

    @property
    def fenced(self) -> frozenset[str]:
        """UIDs of the pods that are fenced, or asked for."""
        return frozenset(pod.uid for pod in (*self.victims, *self.guards))


@dataclass(frozen=True, slots=True)
class Fencing:
    """The broker has been asked."""

    operation: Operation
    deadline: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Fenced; waiting until the ReplicaSet's status shows every fenced pod as not ready."""

    operation: Operation
    deadline: float
    asked_at: float
    """When the deletion costs were last asked for."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """The scale is being written."""

    operation: Operation
    deadline: float
    to_replicas: int


@dataclass(frozen=True, slots=True)
class Verifying:
    """Lowered; waiting to see who goes."""

    operation: Operation
    deadline: float
    to_replicas: int
    leaving: int
    """How many pods are to go."""
    seen_lowered: bool = False
    """The lower number has been read back: a higher one after it is a new one."""
    raised_since: float | None = None
    """Since when a higher number is seen, and a ReplicaSet that has nobody to delete."""
    asked_at: float | None = None
    """When the Deployment was last asked for, because the lower number was never seen."""
    confirmed: bool = False
    """The API server itself has said that the number is a higher one."""
    recorded: frozenset[str] = frozenset()
    """Wrong victims already counted."""


ScaleInState = Idle | Fencing | Evidence | Lowering | Verifying
