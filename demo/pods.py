"""The few facts about a worker's pod that the demo needs."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod at one moment."""

    name: str
    namespace: str
    uid: str
    pool: str
    node: str
    container_id: str
    """As the container runtime knows it; empty until it was started."""
    deleting: bool
    running: bool

    @classmethod
    def read(cls, data: dict[str, Any]) -> Self:
        """Read the API server's form."""
        metadata, status = data["metadata"], data.get("status", {})
        containers = status.get("containerStatuses") or [{}]
        return cls(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            pool=metadata.get("labels", {}).get("leadsman.dev/pool", ""),
            node=data["spec"].get("nodeName", ""),
            container_id=containers[0].get("containerID", "").partition("://")[2],
            deleting="deletionTimestamp" in metadata,
            running="running" in containers[0].get("state", {}),
        )
