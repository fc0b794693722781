"""The custom resources as pydantic models, and the CRDs generated from them."""

from leadsman_operator.api.base import API_VERSION, GROUP, VERSION, ObjectMeta
from leadsman_operator.api.capability import Capability, CapabilitySpec, CapabilityStatus
from leadsman_operator.api.conditions import Condition, ConditionStatus, ConditionType
from leadsman_operator.api.convert import capability_config, last_decision, max_draining, pool_spec
from leadsman_operator.api.pod import INJECTED_ENV, EnvVar, Resources
from leadsman_operator.api.workerpool import WorkerPool, WorkerPoolSpec
from leadsman_operator.api.workerpool_status import (
    DecisionClamp,
    DecisionInput,
    LastDecision,
    WorkerPoolStatus,
)

__all__ = [
    "API_VERSION",
    "GROUP",
    "INJECTED_ENV",
    "VERSION",
    "Capability",
    "CapabilitySpec",
    "CapabilityStatus",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "DecisionClamp",
    "DecisionInput",
    "EnvVar",
    "LastDecision",
    "ObjectMeta",
    "Resources",
    "WorkerPool",
    "WorkerPoolSpec",
    "WorkerPoolStatus",
    "capability_config",
    "last_decision",
    "max_draining",
    "pool_spec",
]
