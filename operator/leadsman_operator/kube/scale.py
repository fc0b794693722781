"""The only place where replicas are written: server-side apply on `deployments/scale`, as one field manager.

An apply without force on a field that somebody else has changed since is refused with the other manager's name; so
two writers of one number never overwrite one another unnoticed.
"""

from typing import Any

from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError
from leadsman_operator.kube.resources import FIELD_MANAGER, Kind

Object = dict[str, Any]


class OtherWriterError(Exception):
    """Somebody else owns the number of replicas; `managers` are the names they write under."""

    def __init__(self, managers: list[str]) -> None:
        super().__init__(f"replicas are written by {', '.join(managers)}")
        self.managers = managers


class ChangedError(Exception):
    """The Deployment changed since it was read: read, check and decide again."""


async def write_replicas(
    client: KubeClient,
    namespace: str,
    deployment: str,
    replicas: int,
    *,
    resource_version: str | None = None,
    force: bool = False,
) -> Object:
    """Write the number; return the Scale object.

    `resource_version` makes the write conditional on the Deployment being exactly as it was read. `force` takes the
    field from whoever has it. Raises OtherWriterError, ChangedError, ApiError and UnreachableError.
    """
    metadata = {"name": deployment, "namespace": namespace}
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}
    try:
        return await client.apply(Kind.DEPLOYMENT, namespace, deployment, body, subresource="scale", force=force)
    except ApiError as error:
        if not error.conflict:
            raise
        managers = set(error.other_managers)
        if not managers:
            raise ChangedError(error.message) from error
        if managers != {FIELD_MANAGER}:
            raise OtherWriterError(sorted(managers - {FIELD_MANAGER})) from error
    # The field is ours, but by our apply of the whole Deployment: its creation was cut short half-way.
    return await client.apply(Kind.DEPLOYMENT, namespace, deployment, body, subresource="scale", force=True)
