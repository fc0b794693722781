"""The status patches a kubelet sends for a pod, as strategic merge patches of conditions and container statuses."""

import datetime as dt
from typing import Any


def running(manifest: dict[str, Any], address: str, *, ready: bool) -> dict[str, Any]:
    """All containers run; the readiness probe answered `ready`."""
    now = _now()
    return {
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
            "conditions": [_condition("Initialized", now), *_readiness(now, ready=ready)],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": container["image"],
                    "containerID": f"fleet://{manifest['metadata']['uid']}/{container['name']}",
                    "ready": ready,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
                for container in manifest["spec"]["containers"]
            ],
        }
    }


def readiness(status: dict[str, Any]) -> dict[str, Any]:
    """Only what a later probe changes of a `running` status."""
    whole = status["status"]
    kept = [one for one in whole["conditions"] if one["type"] != "Initialized"]
    return {"status": {"conditions": kept, "containerStatuses": whole["containerStatuses"]}}


def failing(manifest: dict[str, Any], reason: str) -> dict[str, Any]:
    """No container can start, for this reason."""
    now = _now()
    return {
        "status": {
            "phase": "Pending",
            "startTime": now,
            "conditions": [_condition("Initialized", now), *_readiness(now, ready=False)],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": False,
                    "started": False,
                    "restartCount": 0,
                    "state": {"waiting": {"reason": reason, "message": f"cannot start: {reason}"}},
                }
                for container in manifest["spec"]["containers"]
            ],
        }
    }


def crashing(manifest: dict[str, Any], restarts: int, *, waiting: bool) -> dict[str, Any]:
    """Its containers end soon after each start: they wait for the next one, or have just started once more."""
    now = _now()
    crashed = {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}
    state = {"waiting": {"reason": "CrashLoopBackOff"}} if waiting else {"running": {"startedAt": now}}
    status = failing(manifest, "CrashLoopBackOff")["status"]
    found = [
        {**one, "restartCount": restarts, "state": state, "lastState": {"terminated": crashed}}
        for one in status["containerStatuses"]
    ]
    unready = [
        {**one, "lastTransitionTime": manifest["metadata"]["creationTimestamp"]} for one in status["conditions"]
    ]
    return {"status": {**status, "phase": "Running", "conditions": unready, "containerStatuses": found}}


def _readiness(now: str, *, ready: bool) -> list[dict[str, Any]]:
    return [_condition(kind, now, status=ready) for kind in ("Ready", "ContainersReady")]


def _condition(kind: str, now: str, *, status: bool = True) -> dict[str, Any]:
    return {"type": kind, "status": "True" if status else "False", "lastTransitionTime": now}


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
