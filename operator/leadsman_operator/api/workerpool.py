"""The WorkerPool: a fleet that serves capabilities, and how it follows their queues."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from leadsman_operator.api.base import API_VERSION, INT32, MAX_REPLICAS, ApiModel, Name, ObjectMeta, rules
from leadsman_operator.api.pod import DeploymentRef, EnvVar, PodTemplate, Resources
from leadsman_operator.api.schedule import Schedule
from leadsman_operator.api.workerpool_status import WorkerPoolStatus
from leadsman_operator.scaling.model import ScalingMode, ScalingPolicy

MAX_SLOTS = 4096
WEEK_SECONDS = 604_800

Replicas = Annotated[int, Field(ge=0, le=MAX_REPLICAS, json_schema_extra=INT32)]
SomeReplicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS, json_schema_extra=INT32)]
ATOMIC = {"x-kubernetes-list-type": "atomic"}
Argument = Annotated[str, Field(max_length=4096)]
Arguments = Annotated[tuple[Argument, ...], Field(max_length=64, json_schema_extra=ATOMIC)]
ReplicasOrPercent = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 1,
            "maximum": MAX_REPLICAS,
            "maxLength": 4,
            "pattern": "^(100|[1-9]?[0-9])%$",
            "x-kubernetes-int-or-string": True,
        }
    ),
]


class ScaleOut(ApiModel):
    """How the fleet grows."""

    max_step: SomeReplicas | None = None
    """How many workers may be starting at once; the next ones follow as these become ready. Default: as many as
    are wanted, in one move."""


class ScaleIn(ApiModel):
    """How the fleet shrinks. Only workers that hold no task are ever taken away."""

    idle_seconds: Annotated[int, Field(ge=0, le=86_400, json_schema_extra=INT32)] = 300
    """A worker leaves only after it was not needed for this long: the fleet shrinks to the greatest number that was
    wanted at any moment of this window."""
    max_step: SomeReplicas | None = None
    """How many workers leave in one move. Default: as many as are not needed; with policy Step one."""


class Step(ApiModel):
    """The high-water mark: with policy Step, workers are added while more tasks than this wait."""

    high_water_mark: Annotated[int, Field(ge=1, le=10_000_000, json_schema_extra=INT32)] = 2
    """Waiting tasks from which on workers are added."""
    add_replicas: SomeReplicas = 1
    """How many are added at a time; the next ones follow when these are ready."""


class Scaling(ApiModel):
    """How the number of workers follows the queues."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.policy == 'Step' || !has(self.step)", "step is only used with policy Step"),
            (
                "self.policy != 'Step' || self.headroomSlots == 0",
                "headroomSlots is only used with policy Target; with Step set minReplicas",
            ),
        )
    )

    mode: ScalingMode = ScalingMode.ACTIVE
    """Active: the fleet is sized. Observe: the size is computed and reported, and never written. Paused: nothing is
    done."""
    policy: ScalingPolicy = ScalingPolicy.TARGET
    """Target: as many workers as keep the queue within the two targets below, in one move. Step: a few more at a
    time while a high-water mark is exceeded."""
    target_tasks_per_slot: Annotated[int, Field(ge=1, le=100_000, json_schema_extra=INT32)] = 5
    """Depth target: tasks, waiting and in flight, that one slot may answer for. 1 gives every task a slot of its
    own at once."""
    target_age_seconds: Annotated[int, Field(ge=1, le=86_400, json_schema_extra=INT32)] = 60
    """Age target: how long the oldest task may wait. Together with the measured service time it also bounds how
    many tasks one slot may answer for."""
    scale_out: ScaleOut = ScaleOut()
    """How the fleet grows."""
    scale_in: ScaleIn = ScaleIn()
    """How the fleet shrinks. Only workers that hold no task are ever taken away."""
    step: Step | None = None
    """The high-water mark of policy Step."""
    schedules: Annotated[tuple[Schedule, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Other bounds at some hours of some days: more workers ready before the day begins, fewer at night."""
    headroom_slots: Annotated[int, Field(ge=0, le=1_000_000, json_schema_extra=INT32)] = 0
    """Slots kept free above what the work asks for, so that the next tasks meet a worker that has started already.
    Not with policy Step."""
    signal_lost_floor: Replicas | None = None
    """Workers that are made while nothing is heard of the broker, if there are fewer. Default: the fleet is held as
    it is."""


class Drain(ApiModel):
    """How a worker goes."""

    grace_seconds: Annotated[int, Field(ge=1, le=WEEK_SECONDS, json_schema_extra=INT32)] = 3600
    """How long a worker that is told to stop may go on with the tasks it holds (the pod's termination grace
    period). It matters when somebody else takes the pod away: a node is drained, the pool is deleted."""
    max_draining: ReplicasOrPercent = "25%"
    """No worker is taken away while so many others are stopping with tasks in their hands: a number, or a share of
    the fleet (at least one)."""


_SCHEDULED = (
    "!has(self.scaling.schedules) || self.scaling.schedules.all(s,"
    " (!has(s.min) || s.min <= self.maxReplicas) && (!has(s.max) || s.max <= self.maxReplicas))"
)
_FLOOR = "!has(self.scaling.signalLostFloor) || self.scaling.signalLostFloor <= self.maxReplicas"
_ONE_OF = "[has(self.image), has(self.template), has(self.deploymentRef)].filter(x, x).size() == 1"
_SAME_CHOICE = (
    "has(self.image) == has(oldSelf.image) && has(self.template) == has(oldSelf.template)"
    " && has(self.deploymentRef) == has(oldSelf.deploymentRef)"
)
_SAME_DEPLOYMENT = (
    "!has(self.deploymentRef) || !has(oldSelf.deploymentRef)"
    " || self.deploymentRef.name == oldSelf.deploymentRef.name"
)
_SHORTHAND = (
    "has(self.image) || !(has(self.command) || has(self.args) || has(self.env) || has(self.resources)"
    " || has(self.serviceAccountName))"
)


class WorkerPoolSpec(ApiModel):
    """What the fleet serves, what its pods are, and how many there may be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.minReplicas <= self.maxReplicas", "minReplicas may not be above maxReplicas"),
            (_SCHEDULED, "min and max of a schedule may not be above maxReplicas"),
            (_FLOOR, "scaling.signalLostFloor may not be above maxReplicas"),
            (_ONE_OF, "give exactly one of image, template and deploymentRef"),
            (_SHORTHAND, "command, args, env, resources and serviceAccountName go with image only"),
            (
                _SAME_CHOICE,
                "the choice between image, template and deploymentRef is immutable: make a new pool instead",
            ),
            (_SAME_DEPLOYMENT, "deploymentRef.name is immutable: make a new pool instead"),
        )
    )

    capabilities: (
        Annotated[
            tuple[Name, ...],
            Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """The queues its workers take tasks from: names of Capabilities in the same namespace. Default: the one of the
    pool's own name."""
    min_replicas: Replicas = 0
    """Workers that are kept even when nothing waits. `kubectl scale workerpool` sets this."""
    max_replicas: SomeReplicas
    """Workers there may be at most."""
    slots_per_worker: Annotated[int, Field(ge=1, le=MAX_SLOTS, json_schema_extra=INT32)] = 1
    """Tasks one worker runs at once. Size a worker's memory for this many."""
    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """The worker's image: the short way to say what the pods are. Give exactly one of image, template and
    deploymentRef."""
    command: Arguments | None = None
    """With image: the command, in place of the image's entry point."""
    args: Arguments | None = None
    """With image: the command's arguments."""
    env: (
        Annotated[
            tuple[EnvVar, ...],
            Field(
                max_length=128,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            ),
        ]
        | None
    ) = None
    """With image: environment variables. The broker's address and the like are added by the operator."""
    resources: Resources | None = None
    """With image: what one worker asks for and may use."""
    service_account_name: Name | None = None
    """With image: the service account of the pods. Its token is what the workers show to the broker; its pull
    secrets are used for the image. Default: the namespace's default account."""
    template: PodTemplate | None = None
    """A whole pod template. Its Deployment belongs to the pool and has its name. The first container is the
    worker."""
    deployment_ref: DeploymentRef | None = None
    """A Deployment of yours. Only its scale is written."""
    scaling: Scaling = Scaling()
    """How the number of workers follows the queues."""
    drain: Drain = Drain()
    """How a worker goes."""


class WorkerPool(ApiModel):
    """A fleet of workers that serves one or more capabilities and is sized by their queues."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.metadata.name.size() <= 63",
                "a pool's name is a label of its pods: 63 characters at most",
            ),
        )
    )

    api_version: Literal["leadsman.dev/v1alpha1"] = API_VERSION
    kind: Literal["WorkerPool"] = "WorkerPool"
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkerPoolSpec
    """What the fleet serves, what its pods are, and how many there may be."""
    status: WorkerPoolStatus = WorkerPoolStatus()
    """What the fleet is doing, and why it has the size it has."""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities it serves, the default filled in."""
        return self.spec.capabilities or (self.metadata.name,)

    @property
    def deployment_name(self) -> str:
        """The Deployment it scales."""
        reference = self.spec.deployment_ref
        return self.metadata.name if reference is None else reference.name
