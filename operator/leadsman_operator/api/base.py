"""How the models of the custom resources are written, and the schema extensions they use.

A field's docstring is what `kubectl explain` prints and what `docs/reference.md` says. Reading is tolerant: an
object may come from a newer version, so unknown fields are ignored; the API server has already refused what is
wrong.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "leadsman.dev"
VERSION = "v1alpha1"
API_VERSION: Final = "leadsman.dev/v1alpha1"
POOL_LABEL = "leadsman.dev/pool"
"""On a pool's pods and ReplicaSets; its value is the pool's name."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
MAX_REPLICAS = 10_000
YEAR_SECONDS = 31_536_000
DAY_SECONDS = 86_400

INT32 = {"format": "int32"}
INT64 = {"format": "int64"}

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME_PATTERN)]
"""A Kubernetes object name."""


class ApiModel(BaseModel):
    """A part of a custom resource: camel case outside, frozen inside."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )


class ObjectMeta(ApiModel):
    """The part of an object's metadata that the operator reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def rules(*checks: tuple[str, str], field_path: str | None = None) -> dict[str, Any]:
    """Rules the API server checks, as the schema extension: (CEL expression, what to say when it is false)."""
    found: list[dict[str, str]] = []
    for rule, message in checks:
        entry = {"rule": rule, "message": message}
        if field_path is not None:
            entry["fieldPath"] = field_path
        found.append(entry)
    return {"x-kubernetes-validations": found}
