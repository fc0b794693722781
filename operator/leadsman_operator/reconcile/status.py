"""What a pool's status says, and when it is worth a write.

A change of the decision or of a condition is written at once. Counts that follow the fleet wait a little, and
figures that only follow the load are rounded and wait a minute, so that a busy pool costs etcd a write a minute and
an idle one none.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from leadsman_operator.api import WorkerPoolStatus, last_decision
from leadsman_operator.api.base import POOL_LABEL
from leadsman_operator.reconcile.conditions import Verdict
from leadsman_operator.scaling import census
from leadsman_operator.scaling.model import Decision, PoolObservation

Object = dict[str, Any]

MINUTE_SECONDS = 60.0
FLEET_SECONDS = 10.0
"""Between writes for the sake of pods that came or went, or of a decision whose reason alone changed."""

_FLEET = ("replicas", "readyReplicas", "drainingWorkers", "selector")
_LOAD = ("busyWorkers", "idleWorkers", "readyTasks", "blockedTasks", "leasedTasks", "oldestTaskTime")
_AGE_TOLERANCE_SECONDS = 5.0


def pool_status(
    *,
    name: str,
    generation: int,
    deployment: Object | None,
    observation: PoolObservation,
    decision: Decision,
    verdicts: Sequence[Verdict],
    before: Mapping[str, Any],
    now: dt.datetime,
) -> Object:
    """Return the whole status as it should be; `before` is what the API server has."""
    counts = census(observation)
    work = observation.work
    ages = [part.oldest_age_seconds for part in work if part.oldest_age_seconds is not None]
    oldest = _keep_time(before.get("oldestTaskTime"), now - dt.timedelta(seconds=max(ages))) if ages else None
    deployed = (deployment or {}).get("status") or {}
    status = WorkerPoolStatus(
        observed_generation=generation,
        replicas=int(deployed.get("replicas") or 0),
        selector=f"{POOL_LABEL}={name}",
        desired_replicas=decision.replicas,
        ready_replicas=counts.ready,
        busy_workers=counts.busy,
        idle_workers=counts.idle,
        draining_workers=counts.draining,
        ready_tasks=rounded(sum(part.waiting for part in work)),
        blocked_tasks=rounded(sum(max(0, part.waiting - part.leasable) for part in work)),
        leased_tasks=rounded(sum(worker.leases for worker in observation.workers)),
        oldest_task_time=oldest,
        last_decision=last_decision(decision, rfc3339(now)),
    )
    found: Object = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    found["conditions"] = condition_list(verdicts, generation, before, now)
    return found


def condition_list(
    verdicts: Sequence[Verdict], generation: int, before: Mapping[str, Any], now: dt.datetime
) -> list[Object]:
    """Give the conditions their times: a status that stays keeps the time at which it began."""
    known = {c.get("type"): c for c in before.get("conditions") or ()}
    found = []
    for verdict in verdicts:
        old = known.get(verdict.type.value) or {}
        stays = old.get("status") == verdict.status.value
        found.append(
            {
                "type": verdict.type.value,
                "status": verdict.status.value,
                "observedGeneration": generation,
                "lastTransitionTime": old["lastTransitionTime"] if stays else rfc3339(now),
                "reason": verdict.reason.value,
                "message": verdict.message,
            }
        )
    return found


def write_in(before: Mapping[str, Any], after: Object, since_seconds: float) -> float | None:
    """In how many seconds `after` is to be written; 0 for now, None when it says nothing new.

    `since_seconds`: since the last write.
    """
    if _decisive(before) != _decisive(after):
        return 0.0
    if _minor(before) != _minor(after):
        return max(0.0, FLEET_SECONDS - since_seconds)
    if any(before.get(field) != after.get(field) for field in _LOAD) or _messages(before) != _messages(after):
        return max(0.0, MINUTE_SECONDS - since_seconds)
    return None


def patch_of(before: Mapping[str, Any], after: Object) -> Object:
    """Return the merge patch: what is new, and null for what is to go. Nested objects are replaced whole."""
    patch: Object = {key: value for key, value in after.items() if before.get(key) != value}
    patch.update({key: None for key in before if key not in after})
    last = patch.get("lastDecision")
    if isinstance(last, dict):
        old = before.get("lastDecision") or {}
        patch["lastDecision"] = {**{key: None for key in old if key not in last}, **last}
    return patch


def rounded(number: int) -> int:
    """Return two leading digits of what is 100 or more."""
    if number < 100:
        return number
    step = 10 ** (len(str(number)) - 2)
    return int(number // step * step)


def rfc3339(moment: dt.datetime) -> str:
    """Return a moment as Kubernetes writes it, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _decisive(status: Mapping[str, Any]) -> tuple[object, ...]:
    last = status.get("lastDecision") or {}
    verdicts = tuple(
        (c.get("type"), c.get("status"), c.get("reason"), c.get("observedGeneration"))
        for c in status.get("conditions") or ()
    )
    return (
        status.get("observedGeneration"),
        status.get("desiredReplicas"),
        last.get("desiredReplicas"),
        last.get("action"),
        verdicts,
    )


def _minor(status: Mapping[str, Any]) -> tuple[object, ...]:
    last = status.get("lastDecision") or {}
    return (*(status.get(field) for field in _FLEET), last.get("reason"), last.get("recommendedReplicas"))


def _messages(status: Mapping[str, Any]) -> list[object]:
    return [c.get("message") for c in status.get("conditions") or ()]


def _keep_time(before: str | None, moment: dt.datetime) -> str:
    """Return the moment, or what was written when it differs only by the error of measuring ages."""
    if before is not None:
        try:
            written = dt.datetime.strptime(before, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.UTC)
        except ValueError:
            return rfc3339(moment)
        if abs((written - moment).total_seconds()) <= _AGE_TOLERANCE_SECONDS:
            return before
    return rfc3339(moment)
