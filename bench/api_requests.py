"""What one user asks of the API server, counted by the API server itself: in flow schemas for that user alone."""

from pathlib import Path
from typing import Any

from cluster import ControlPlane

_SCHEMAS = {
    "leases": (["*"], ["coordination.k8s.io"], ["leases"]),
    "writes": (["create", "update", "patch", "delete", "deletecollection"], ["*"], ["*"]),
    "reads": (["*"], ["*"], ["*"]),
}
"""Flow schema -> verbs, groups, resources of the requests that it counts; the first that fits counts."""


def count_requests(plane: ControlPlane, user: str) -> Path:
    """Make an administrator whose requests the API server counts apart; return its kubeconfig."""
    plane.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        },
        *(_flow_schema(user, name, precedence) for precedence, name in enumerate(_SCHEMAS, start=100)),
    )
    return plane.write_kubeconfig(f"{user}.kubeconfig", plane.authority.issue(user, user))


def asked(plane: ControlPlane, user: str) -> dict[str, float]:
    """Read the user's requests so far, by `leases`, `writes` (others) and `reads`."""
    found = dict.fromkeys(_SCHEMAS, 0.0)
    for line in plane.kubectl("get", "--raw", "/metrics").splitlines():
        if line.startswith("apiserver_flowcontrol_dispatched_requests_total{"):
            for name in _SCHEMAS:
                if f'flow_schema="{user}-{name}"' in line:
                    found[name] += float(line.rsplit(" ", 1)[1])
    return found


def _flow_schema(user: str, name: str, precedence: int) -> dict[str, Any]:
    verbs, groups, resources = _SCHEMAS[name]
    resource_rule = {
        "verbs": verbs,
        "apiGroups": groups,
        "resources": resources,
        "namespaces": ["*"],
        "clusterScope": True,
    }
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": f"{user}-{name}"},
        "spec": {
            "priorityLevelConfiguration": {"name": "workload-high"},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": user}}],
                    "resourceRules": [resource_rule],
                    "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": ["*"]}] if name == "reads" else [],
                }
            ],
        },
    }
