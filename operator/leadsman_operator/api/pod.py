"""What a pool's pods are: the shorthand around an image, a whole pod template, or a Deployment of the user's."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema

from leadsman_operator.api.base import ApiModel, Name, rules

INJECTED_ENV = (
    "LEADSMAN_BROKER_URL",
    "LEADSMAN_NAMESPACE",
    "LEADSMAN_POOL",
    "LEADSMAN_CAPABILITIES",
    "LEADSMAN_SLOTS",
    "LEADSMAN_POD_UID",
    "LEADSMAN_POD_NAME",
    "LEADSMAN_TOKEN_FILE",
    "LEADSMAN_DRAIN_SECONDS",
    "LEADSMAN_HEALTH_PORT",
)
"""Environment variables that the operator sets in a worker's container, and nobody else may."""

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
Quantity = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 64,
            "pattern": _QUANTITY,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A Kubernetes quantity: 1, 500m, 2Gi."""

ResourceList = Annotated[dict[str, Quantity], Field(max_length=32)]

_TEMPLATE: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "metadata": {
            "type": "object",
            "description": "Labels and annotations of the pods.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "spec": {
            "type": "object",
            "description": "A pod's spec. Checked by the API server when the Deployment is applied.",
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "description": "The first one is the worker.",
                    "minItems": 1,
                    "maxItems": 64,
                    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                }
            },
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
    "x-kubernetes-preserve-unknown-fields": True,
}
PodTemplate = Annotated[dict[str, Any], WithJsonSchema(_TEMPLATE)]


class KeySelector(ApiModel):
    """One key of a Secret or ConfigMap in the pool's namespace."""

    name: Name
    """The Secret's or ConfigMap's name."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key in it."""
    optional: bool = False
    """True: the worker starts without the variable when the key is missing."""


class FieldSelector(ApiModel):
    """A field of the pod itself."""

    field_path: Annotated[str, Field(min_length=1, max_length=253)]
    """The field, for example metadata.name."""


class EnvSource(ApiModel):
    """Where a variable's value comes from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)].filter(x, x).size() == 1",
                "give exactly one of secretKeyRef, configMapKeyRef and fieldRef",
            ),
        )
    )

    secret_key_ref: KeySelector | None = None
    """A key of a Secret."""
    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""


class EnvVar(ApiModel):
    """One environment variable."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.value) || !has(self.valueFrom)", "give value or valueFrom, not both"),
            (
                f"!(self.name in [{', '.join(repr(name) for name in INJECTED_ENV)}])",
                "the operator sets this variable itself",
            ),
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    """The variable's name."""
    value: Annotated[str, Field(max_length=32_768)] | None = None
    """Its value."""
    value_from: EnvSource | None = None
    """Where its value comes from, for example a Secret."""


class Resources(ApiModel):
    """What one worker asks for and may use, as in a pod."""

    requests: ResourceList | None = None
    """What the scheduler reserves, for example cpu 500m and memory 1Gi."""
    limits: ResourceList | None = None
    """What it may not exceed."""


class DeploymentRef(ApiModel):
    """A Deployment of yours in the pool's namespace."""

    name: Name
    """The Deployment's name."""
