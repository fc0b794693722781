"""What a WorkerPool's status says: how many there are, what they do, and the last decision with its numbers."""

from typing import Annotated

from pydantic import Field

from leadsman.reasons import Reason
from leadsman_operator.api.base import INT32, INT64, ApiModel
from leadsman_operator.api.conditions import Conditions
from leadsman_operator.scaling.model import Action

_LISTED = {"x-kubernetes-list-type": "atomic"}

Count = Annotated[int, Field(ge=0, le=2_147_483_647, json_schema_extra=INT32)]
LongCount = Annotated[int, Field(ge=0, json_schema_extra=INT64)]
Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Line = Annotated[str, Field(max_length=2048)]
Word = Annotated[str, Field(max_length=128)]


class DecisionClamp(ApiModel):
    """One bound that changed the number of replicas."""

    reason: Word
    """Which bound."""
    before: Count
    """The number before it."""
    after: Count
    """The number after it."""
    note: Line | None = None
    """The figures behind it."""


class DecisionInput(ApiModel):
    """The numbers of one capability that went into the decision."""

    capability: Annotated[str, Field(max_length=253)]
    """The capability."""
    waiting: LongCount = 0
    """Tasks that wait, with those due before a new worker could start."""
    leasable: LongCount = 0
    """How many more tasks could be in flight at once."""
    leased: LongCount = 0
    """Tasks in the hands of the pool's workers."""
    service_milliseconds: LongCount | None = None
    """Mean time a task takes; absent until ten have completed."""
    oldest_age_seconds: LongCount | None = None
    """How long the oldest task has waited."""
    slots: LongCount = 0
    """Slots this capability asks for."""
    formula: Line = ""
    """How that number came about."""


class LastDecision(ApiModel):
    """The last decision on the pool's size, so that it can be followed without a log."""

    time: Time | None = None
    """When it was made."""
    summary: Line = ""
    """The decision in one line."""
    action: Action | None = None
    """ScaleOut, ScaleIn or Hold."""
    reason: Word = Reason.STABLE.value
    """Why, in one word of the published list."""
    current_replicas: Count | None = None
    """Replicas there were."""
    desired_replicas: Count | None = None
    """Replicas there should be."""
    recommended_replicas: Count | None = None
    """Replicas the work asks for, before any bound."""
    slots: LongCount | None = None
    """Slots the work asks for."""
    startup_seconds: Count | None = None
    """How long the pool's pods take to start."""
    formula: Annotated[str, Field(max_length=32_768)] = ""
    """From the slots to the replicas."""
    clamps: Annotated[tuple[DecisionClamp, ...], Field(max_length=16, json_schema_extra=_LISTED)] = ()
    """Every bound that changed the number, in order."""
    inputs: Annotated[tuple[DecisionInput, ...], Field(max_length=16, json_schema_extra=_LISTED)] = ()
    """What went in, for each capability."""


class WorkerPoolStatus(ApiModel):
    """What the fleet is doing, and why it has the size it has. Written on a change, else rounded to a minute."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra=INT64)] | None = None
    """The generation of the spec this was found for."""
    replicas: Count | None = None
    """Pods of the Deployment."""
    selector: Annotated[str, Field(max_length=1024)] | None = None
    """Label selector of the pods, for the scale subresource."""
    desired_replicas: Count | None = None
    """Replicas the last decision came to."""
    ready_replicas: Count | None = None
    """Pods that are ready."""
    busy_workers: Count | None = None
    """Workers that hold tasks."""
    idle_workers: Count | None = None
    """Workers that hold none."""
    draining_workers: Count | None = None
    """Workers that are going away."""
    ready_tasks: Count | None = None
    """The pool's part of the tasks that wait."""
    blocked_tasks: Count | None = None
    """Those of them that no worker may take now."""
    leased_tasks: Count | None = None
    """Tasks in the hands of its workers."""
    oldest_task_time: Time | None = None
    """Since when the oldest task waits; absent while none does."""
    last_decision: LastDecision | None = None
    """The last decision on its size."""
    conditions: Conditions = ()
    """Ready: the spec is accepted, the Deployment applied, the signal known (also at 0 replicas). SignalHealthy:
    the broker's numbers are fresh and make sense. ScalingActive: decisions are carried out. ScalingLimited: a bound
    keeps the fleet from the size the work asks for. Conflict: somebody else writes the replicas."""
