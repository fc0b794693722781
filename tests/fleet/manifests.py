"""Objects that the tests apply."""

from typing import Any

API_VERSION = "leadsman.dev/v1alpha1"


def capability(name: str, **spec: Any) -> dict[str, Any]:
    """A Capability; without fields, the smallest one."""
    manifest: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Capability", "metadata": {"name": name}}
    return {**manifest, "spec": spec} if spec else manifest


def pool(name: str, **spec: Any) -> dict[str, Any]:
    """A WorkerPool whose workers the fleet plays; `spec` adds to the smallest one or replaces parts of it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkerPool",
        "metadata": {"name": name},
        "spec": {"maxReplicas": 20, "image": "played-by-the-fleet", **spec},
    }


def worker_deployment(name: str, *, replicas: int, grace_seconds: int = 3600) -> dict[str, Any]:
    """A Deployment of workers that serve the capability of the same name, made without an operator."""
    labels = {"leadsman.dev/pool": name}
    environment = {"LEADSMAN_POOL": name, "LEADSMAN_CAPABILITIES": name, "LEADSMAN_SLOTS": "1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": grace_seconds,
                    "containers": [
                        {
                            "name": "worker",
                            "image": "played-by-the-fleet",
                            "env": [{"name": key, "value": value} for key, value in environment.items()],
                        }
                    ],
                },
            },
        },
    }
