"""The kinds that the operator reads or writes, and where they live."""

from enum import Enum

from leadsman_operator.api.base import POOL_LABEL

__all__ = ["FIELD_MANAGER", "POOL_LABEL", "Kind"]

FIELD_MANAGER = "leadsman-operator"
"""The name our writes carry in managed fields."""


class Kind(Enum):
    """One kind: its API group and version, and its plural name."""

    WORKER_POOL = ("leadsman.dev", "v1alpha1", "workerpools")
    CAPABILITY = ("leadsman.dev", "v1alpha1", "capabilities")
    DEPLOYMENT = ("apps", "v1", "deployments")
    REPLICA_SET = ("apps", "v1", "replicasets")
    POD = ("", "v1", "pods")
    EVENT = ("events.k8s.io", "v1", "events")
    LEASE = ("coordination.k8s.io", "v1", "leases")

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.value[0]

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.value[1]

    @property
    def plural(self) -> str:
        """The plural name, as in URLs and in roles."""
        return self.value[2]

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, an object or a subresource; namespace None is all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if namespace is not None else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{within}/{self.plural}{tail}"


WATCHED = (Kind.WORKER_POOL, Kind.CAPABILITY, Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.POD)
"""Kept in the cache."""


SELECTORS = {Kind.REPLICA_SET: POOL_LABEL, Kind.POD: POOL_LABEL}
"""What the server filters for us: of pods and ReplicaSets only those of a pool."""
