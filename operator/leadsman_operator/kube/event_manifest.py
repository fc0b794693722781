"""An event of events.k8s.io/v1, as this operator writes it."""

import datetime as dt
import secrets
from collections.abc import Mapping
from typing import Any

CONTROLLER = "leadsman.dev/operator"
"""The name our events carry."""


def event_manifest(
    regarding: Mapping[str, Any],
    reason: str,
    *,
    at: dt.datetime,
    action: str,
    instance: str,
    note: str = "",
    warning: bool = False,
) -> dict[str, Any]:
    """Return an event about the object that `regarding` refers to, in its namespace, under a name of its own."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{regarding['name'][:230]}.{secrets.token_hex(8)}",
            "namespace": regarding["namespace"],
        },
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "action": action,
        "reason": reason,
        "regarding": dict(regarding),
        "note": note,
        "type": "Warning" if warning else "Normal",
    }
