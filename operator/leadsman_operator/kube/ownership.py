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


def replicas_held_by_template(obj: Mapping[str, Any], manager: str) -> bool:
    """Whether `manager` owns `spec.replicas` by an apply of the whole object rather than of its scale.

    Its next apply without replicas would give the field up, and the API server would reset it to one.
    """
    for entry in obj["metadata"].get("managedFields") or ():
        if entry.get("manager") != manager or entry.get("operation") != "Apply" or entry.get("subresource"):
            continue
        spec = (entry.get("fieldsV1") or {}).get("f:spec")
        if isinstance(spec, Mapping) and "f:replicas" in spec:
            return True
    return False


def controller_uid(obj: Mapping[str, Any], kind: str) -> str | None:
    """Return the UID of the controlling owner when it is of this kind."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == kind:
            uid: str | None = owner.get("uid")
            return uid
    return None
