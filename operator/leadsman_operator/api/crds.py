"""The CustomResourceDefinitions, built from the models."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from leadsman_operator.api.base import GROUP, VERSION
from leadsman_operator.api.capability import Capability
from leadsman_operator.api.schema import Schema, structural, without_defaults
from leadsman_operator.api.workerpool import WorkerPool

_STANDARD = {
    "apiVersion": "The version of the API this object is written for: leadsman.dev/v1alpha1.",
    "kind": "The kind of the object.",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; one with a priority is shown by `-o wide` only."""

    name: str
    path: str
    type: str = "integer"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind and how the API server presents it."""

    model: type[BaseModel]
    plural: str
    short: str
    columns: tuple[Column, ...]
    scale: bool = False

    @property
    def name(self) -> str:
        """The kind, as in YAML."""
        return self.model.__name__

    @property
    def crd_name(self) -> str:
        """The name of its definition."""
        return f"{self.plural}.{GROUP}"

    @property
    def file_name(self) -> str:
        """The file of its definition under `crds/`."""
        return f"{GROUP}_{self.plural}.yaml"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")

CAPABILITY = Kind(
    Capability,
    plural="capabilities",
    short="cap",
    columns=(
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "string"),
        Column("Queued", ".status.readyTasks", description="Tasks that wait for a worker"),
        Column("Leased", ".status.leasedTasks", description="Tasks that a worker has"),
        Column("Dead", ".status.deadTasks", description="Tasks in the dead-letter queue"),
        Column("Delayed", ".status.delayedTasks", priority=1),
        Column("Lease", ".spec.lease.seconds", priority=1),
        Column("Attempts", ".spec.retry.maxAttempts", priority=1),
        Column("Max-Depth", ".spec.admission.maxDepth", priority=1),
        _AGE,
    ),
)
WORKER_POOL = Kind(
    WorkerPool,
    plural="workerpools",
    short="wp",
    scale=True,
    columns=(
        Column("Desired", ".status.desiredReplicas", description="Replicas the last decision came to"),
        Column("Ready", ".status.readyReplicas", description="Pods that are ready"),
        Column("Busy", ".status.busyWorkers", description="Workers that hold tasks"),
        Column("Queued", ".status.readyTasks", description="Tasks that wait"),
        Column("Oldest", ".status.oldestTaskTime", "date", description="How long the oldest task has waited"),
        Column("Reason", ".status.lastDecision.reason", "string"),
        Column("Min", ".spec.minReplicas", priority=1),
        Column("Max", ".spec.maxReplicas", priority=1),
        Column("Idle", ".status.idleWorkers", priority=1),
        Column("Draining", ".status.drainingWorkers", priority=1),
        Column("Leased", ".status.leasedTasks", priority=1),
        Column("Mode", ".spec.scaling.mode", "string", priority=1),
        Column("Decision", ".status.lastDecision.summary", "string", priority=1),
        _AGE,
    ),
)
KINDS = (CAPABILITY, WORKER_POOL)


def schema_of(kind: Kind) -> Schema:
    """Give the kind's structural schema, as in its definition."""
    schema = structural(kind.model)
    properties = schema["properties"]
    standard: Schema = {
        name: {"description": description, "type": "string"} for name, description in _STANDARD.items()
    }
    schema["properties"] = {
        **standard,
        "metadata": {"type": "object"},
        "spec": properties["spec"],
        "status": without_defaults(properties["status"]),
    }
    return schema


def definition(kind: Kind) -> dict[str, Any]:
    """Give the kind's CustomResourceDefinition."""
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.minReplicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
                "categories": ["leadsman"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema_of(kind)},
                    "subresources": subresources,
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                }
            ],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    found: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        found["description"] = column.description
    if column.priority:
        found["priority"] = column.priority
    return found
