"""Who owns what: field managers, and the pool that a Deployment belongs to."""

from collections.abc import Mapping
from typing import Any


def replicas_managers(obj: Mapping[str, Any]) -> list[str]:
    """Return the field managers that own `spec.replicas`, sorted."""
    found = set()
    for entry in obj["metadata"].get("managedFields") or ():
        spec = (entry.get("fieldsV1") or {}).get("f:spec")
        if isinstance(spec, Mapping) and "f:replicas" in spec:
            found.add(str(entry.get("manager", "")))
    return sorted(found)


def controller_uid(obj: Mapping[str, Any], kind: str) -> str | None:
    """Return the UID of the controlling owner when it is of this kind."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == kind:
            uid: str | None = owner.get("uid")
            return uid
    return None
