"""The Deployment of a pool, made from its spec: the user's pod template and what the operator puts into it.

What is put in is a pinned list. Everything here ends up in the pod template, and any change of the template
restarts every worker of every pool; so nothing may depend on the operator's version, and a golden test holds the
whole result.
"""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadsman_operator.kube.resources import FIELD_MANAGER, POOL_LABEL

Object = dict[str, Any]

APPLIED_ANNOTATION = "leadsman.dev/applied"
"""On the Deployment: the hash of what was last applied. Equal means that there is nothing to write."""

CONTAINER = "worker"
"""Name of the container that is made for an image."""

HEALTH_PORT = 8086
HEALTH_PORT_NAME = "leadsman-health"
TOKEN_VOLUME = "leadsman-token"  # noqa: S105 - a volume's name
TOKEN_DIRECTORY = "/var/run/secrets/leadsman"  # noqa: S105 - a path
_TOKEN_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Injection:
    """What every worker needs to know that does not come from its pool."""

    broker_url: str
    audience: str


@dataclass(frozen=True, slots=True)
class Workload:
    """The part of a pool that its Deployment is made of. Exactly one of `image` and `template` is given."""

    namespace: str
    pool: str
    pool_uid: str
    capabilities: tuple[str, ...]
    slots: int
    grace_seconds: int
    image: str | None = None
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Sequence[Mapping[str, Any]] = ()
    resources: Mapping[str, Any] | None = None
    service_account: str | None = None
    template: Mapping[str, Any] | None = None


def deployment(workload: Workload, injection: Injection) -> Object:
    """Return the Deployment without replicas; its annotation tells whether it differs from what was applied."""
    body: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": workload.pool,
            "namespace": workload.namespace,
            "labels": {POOL_LABEL: workload.pool, "app.kubernetes.io/managed-by": FIELD_MANAGER},
            "ownerReferences": [
                # Without blockOwnerDeletion: deleting a pool must not wait for workers that drain for an hour.
                {
                    "apiVersion": "leadsman.dev/v1alpha1",
                    "kind": "WorkerPool",
                    "name": workload.pool,
                    "uid": workload.pool_uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "selector": {"matchLabels": {POOL_LABEL: workload.pool}},
            "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
            "template": _template(workload, injection),
        },
    }
    body["metadata"]["annotations"] = {APPLIED_ANNOTATION: _digest(body)}
    return body


def with_replicas(body: Object, replicas: int) -> Object:
    """Return the same Deployment with a number of replicas, for its creation only."""
    return {**body, "spec": {**body["spec"], "replicas": replicas}}


def applied_hash(obj: Mapping[str, Any]) -> str | None:
    """Return the hash in a Deployment's annotation."""
    found: str | None = (obj["metadata"].get("annotations") or {}).get(APPLIED_ANNOTATION)
    return found


def _template(workload: Workload, injection: Injection) -> Object:
    template = copy.deepcopy(dict(workload.template)) if workload.template is not None else _shorthand(workload)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), POOL_LABEL: workload.pool}
    spec = template.setdefault("spec", {})
    spec["terminationGracePeriodSeconds"] = workload.grace_seconds
    containers = spec.get("containers")
    if isinstance(containers, list) and containers:
        # The first one is the worker. One that is no object is left for the API server to refuse by name.
        worker = containers[0]
        if isinstance(worker, dict):
            _inject(worker, workload, injection)
    spec["volumes"] = [*_without(spec.get("volumes"), "name", TOKEN_VOLUME), _token_volume(injection)]
    return template


def _shorthand(workload: Workload) -> Object:
    """Return the template of an image alone, good enough for a namespace that enforces the restricted profile."""
    container: Object = {
        "name": CONTAINER,
        "image": workload.image,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if workload.command:
        container["command"] = list(workload.command)
    if workload.args:
        container["args"] = list(workload.args)
    if workload.env:
        container["env"] = [copy.deepcopy(dict(entry)) for entry in workload.env]
    if workload.resources:
        container["resources"] = copy.deepcopy(dict(workload.resources))
    spec: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if workload.service_account:
        spec["serviceAccountName"] = workload.service_account
    return {"metadata": {}, "spec": spec}


def _inject(container: Object, workload: Workload, injection: Injection) -> None:
    """Put the pinned list into the worker's container; an entry of the same name gives way."""
    injected = _environment(workload, injection)
    names = {entry["name"] for entry in injected}
    kept = [e for e in container.get("env") or [] if not (isinstance(e, dict) and e.get("name") in names)]
    # First, so that the user's own variables may refer to them.
    container["env"] = [*injected, *kept]
    container["ports"] = [
        *_without(container.get("ports"), "name", HEALTH_PORT_NAME),
        {"name": HEALTH_PORT_NAME, "containerPort": HEALTH_PORT, "protocol": "TCP"},
    ]
    container["readinessProbe"] = {
        "httpGet": {"path": "/readyz", "port": HEALTH_PORT_NAME},
        "periodSeconds": 1,
        "timeoutSeconds": 1,
        "failureThreshold": 1,
    }
    container["volumeMounts"] = [
        *_without(container.get("volumeMounts"), "mountPath", TOKEN_DIRECTORY),
        {"name": TOKEN_VOLUME, "mountPath": TOKEN_DIRECTORY, "readOnly": True},
    ]


def _environment(workload: Workload, injection: Injection) -> list[Object]:
    return [
        {"name": "LEADSMAN_BROKER_URL", "value": injection.broker_url},
        {"name": "LEADSMAN_NAMESPACE", "value": workload.namespace},
        {"name": "LEADSMAN_POOL", "value": workload.pool},
        {"name": "LEADSMAN_CAPABILITIES", "value": ",".join(workload.capabilities)},
        {"name": "LEADSMAN_SLOTS", "value": str(workload.slots)},
        {"name": "LEADSMAN_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "LEADSMAN_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LEADSMAN_TOKEN_FILE", "value": f"{TOKEN_DIRECTORY}/token"},
        {"name": "LEADSMAN_DRAIN_SECONDS", "value": str(workload.grace_seconds)},
        {"name": "LEADSMAN_HEALTH_PORT", "value": str(HEALTH_PORT)},
    ]


def _token_volume(injection: Injection) -> Object:
    source = {"path": "token", "audience": injection.audience, "expirationSeconds": _TOKEN_SECONDS}
    return {"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": source}]}}


def _without(entries: Any, field: str, value: str) -> list[Any]:
    return [e for e in entries or [] if not (isinstance(e, dict) and e.get(field) == value)]


def _digest(body: Object) -> str:
    raw = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(raw.encode()).hexdigest()[:32]
