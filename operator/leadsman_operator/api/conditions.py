"""Conditions, in the form every Kubernetes tool knows."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from leadsman_operator.api.base import INT64, ApiModel


class ConditionType(StrEnum):
    """The conditions of pools and capabilities."""

    READY = "Ready"
    SIGNAL_HEALTHY = "SignalHealthy"
    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"
    CONFLICT = "Conflict"


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One thing that is so or not so, since when and why."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the condition is about, for example Ready."""
    status: ConditionStatus
    """True, False or Unknown."""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra=INT64)] | None = None
    """The generation of the spec this was found for."""
    last_transition_time: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    reason: Annotated[
        str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ]
    """Why, in one word of the published list."""
    message: Annotated[str, Field(max_length=32_768)] = ""
    """Why, for a person, with the numbers."""


CONDITIONS_SCHEMA = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}

Conditions = Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=CONDITIONS_SCHEMA)]
"""One condition of each type."""
