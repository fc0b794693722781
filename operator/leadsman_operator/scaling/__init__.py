"""How many workers a pool should have and which may go: pure decisions."""

from leadsman_operator.scaling.advance import advance, next_deadline
from leadsman_operator.scaling.census import Census, capabilities_not_served, census
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import (
    Action,
    CapabilityInputs,
    CapabilitySample,
    CapabilityWork,
    Clamp,
    Decision,
    PodName,
    PodSample,
    PoolMemory,
    PoolObservation,
    PoolSpec,
    ScalingMode,
    ScalingPolicy,
    Signal,
    WorkerSample,
)
from leadsman_operator.scaling.samples import capability_sample, worker_sample
from leadsman_operator.scaling.share import PoolView, Shares, related, share
from leadsman_operator.scaling.victims import Victims, victims

__all__ = [
    "Action",
    "CapabilityInputs",
    "CapabilitySample",
    "CapabilityWork",
    "Census",
    "Clamp",
    "Decision",
    "PodName",
    "PodSample",
    "PoolMemory",
    "PoolObservation",
    "PoolSpec",
    "PoolView",
    "ScalingMode",
    "ScalingPolicy",
    "Shares",
    "Signal",
    "Victims",
    "WorkerSample",
    "advance",
    "capabilities_not_served",
    "capability_sample",
    "census",
    "decide",
    "next_deadline",
    "related",
    "share",
    "victims",
    "worker_sample",
]
