"""From cached objects and the broker's numbers to what the scaling decision reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadsman_operator.broker.state import BrokerState
from leadsman_operator.kube.cache import REPLICAS_MANAGERS, Cache
from leadsman_operator.kube.ownership import controller_uid
from leadsman_operator.kube.pods import DELETION_COST
from leadsman_operator.kube.resources import FIELD_MANAGER, POOL_LABEL, Kind
from leadsman_operator.reconcile.pools import Pool
from leadsman_operator.reconcile.record import PoolRecord
from leadsman_operator.scaling import capability_sample, worker_sample
from leadsman_operator.scaling.model import CapabilitySample, PodSample, PoolObservation, Signal
from leadsman_operator.scaling.scale_in import ReplicaSetSample
from leadsman_operator.scaling.startup import PodBirths

Object = dict[str, Any]

DEFAULT_LEASE_SECONDS = 30.0

_CANNOT_START = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PreStartHookError",
        "PostStartHookError",
    }
)
"""Waiting reasons of a container that will not become ready by waiting."""
_CRASH_LOOP = "CrashLoopBackOff"
_CRASHES = 2
"""Restarts from which on a container that is not ready counts as crashing: one may have been an accident."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One pool's objects besides itself."""

    deployment: Object | None
    replica_sets: tuple[Object, ...]
    """Of its Deployment, those that have or want pods."""
    pods: tuple[Object, ...]
    """Made by these; pods that have ended are left out."""

    @property
    def replicas(self) -> int:
        """The Deployment's spec.replicas; 0 without one."""
        return int(self.deployment["spec"].get("replicas") or 0) if self.deployment else 0

    @property
    def resource_version(self) -> str:
        """Of the Deployment that `replicas` was read from."""
        return str(self.deployment["metadata"]["resourceVersion"]) if self.deployment else ""

    @property
    def other_managers(self) -> list[str]:
        """Who besides us owns the replicas."""
        if self.deployment is None:
            return []
        managers: list[str] = self.deployment["metadata"].get(REPLICAS_MANAGERS, [])
        return [manager for manager in managers if manager != FIELD_MANAGER]

    @property
    def pods_labelled(self) -> bool:
        """Whether the Deployment's pods can be found by some pool's label."""
        if self.deployment is None:
            return True
        metadata = self.deployment["spec"].get("template", {}).get("metadata") or {}
        return POOL_LABEL in (metadata.get("labels") or {})

    @property
    def replica_failure(self) -> str | None:
        """Why the ReplicaSet cannot create pods."""
        for condition in (self.deployment or {}).get("status", {}).get("conditions") or ():
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                return str(condition.get("message", "pods cannot be created"))
        return None

    @property
    def failing(self) -> dict[str, int]:
        """Why pods cannot start, and how many."""
        found: dict[str, int] = {}
        for pod in self.pods:
            reason = start_failure(pod)
            if reason:
                found[reason] = found.get(reason, 0) + 1
        return found

    @property
    def unschedulable(self) -> tuple[int, str]:
        """How many pods no node takes, and the scheduler's words about one of them."""
        said = [words for words in map(unschedulable, self.pods) if words is not None]
        return len(said), said[0] if said else ""

    @property
    def rollout_in_progress(self) -> bool:
        """Pods of more than one template exist, or the Deployment controller has not seen the newest one."""
        if self.deployment is None:
            return False
        if len(self.replica_sets) > 1:
            return True
        spec, status = self.deployment["spec"], self.deployment.get("status") or {}
        replicas = int(status.get("replicas") or 0)
        return bool(replicas and int(status.get("updatedReplicas") or 0) < replicas and spec.get("replicas"))

    def replica_set_sample(self) -> ReplicaSetSample | None:
        """Return the one ReplicaSet with pods, or None when there is none or more than one."""
        if len(self.replica_sets) != 1:
            return None
        found = self.replica_sets[0]
        status = found.get("status") or {}
        observed = int(status.get("observedGeneration") or 0) >= int(found["metadata"].get("generation") or 0)
        return ReplicaSetSample(
            replicas=int(found["spec"].get("replicas") or 0),
            observed=observed,
            current_replicas=int(status.get("replicas") or 0),
            ready_replicas=int(status.get("readyReplicas") or 0),
        )


class Observer:
    """Reads the cache and the broker's state; writes nothing."""

    def __init__(self, cache: Cache, broker: BrokerState, births: PodBirths) -> None:
        self._cache = cache
        self._broker = broker
        self._births = births

    def surroundings(self, pool: Pool) -> Surroundings:
        """Find a pool's Deployment, ReplicaSets and pods."""
        deployment = self._cache.get(Kind.DEPLOYMENT, pool.namespace, pool.model.deployment_name)
        if deployment is None:
            return Surroundings(None, (), ())
        uid = deployment["metadata"]["uid"]
        label = pool.name
        sets = [
            rs
            for rs in self._cache.of_pool(Kind.REPLICA_SET, pool.namespace, label)
            if controller_uid(rs, "Deployment") == uid
        ]
        owners = {rs["metadata"]["uid"] for rs in sets}
        pods = [
            pod
            for pod in self._cache.of_pool(Kind.POD, pool.namespace, label)
            # A draining pod may outlive its ReplicaSet, which the Deployment controller clears away.
            if (controller_uid(pod, "ReplicaSet") in owners or "deletionTimestamp" in pod["metadata"])
            and (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
        ]
        alive = tuple(rs for rs in sets if rs["spec"].get("replicas") or (rs.get("status") or {}).get("replicas"))
        return Surroundings(deployment, alive, tuple(pods))

    def rests_on(self, pool: Pool) -> frozenset[str]:
        """Return the UIDs of what a pool needs: its Deployment, its Capabilities, its pods that are to stay."""
        names = [(Kind.DEPLOYMENT, pool.model.deployment_name)]
        names += [(Kind.CAPABILITY, name) for name in pool.spec.capabilities]
        named = [self._cache.get(kind, pool.namespace, name) for kind, name in names]
        pods = self._cache.of_pool(Kind.POD, pool.namespace, pool.name)
        staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return frozenset(obj["metadata"]["uid"] for obj in (*named, *staying) if obj is not None)

    def observation(
        self, pool: Pool, record: PoolRecord, around: Surroundings, *, leading_since: float, now: float
    ) -> PoolObservation:
        """Return everything about a pool but its part of the work."""
        lease_seconds = self._lease_seconds(pool)
        workers = []
        for stats, sampled_at in self._broker.workers_of(*pool.key):
            took = self._births.started(stats.pod_uid, now)
            if took is not None:
                record.startup.add(took)
            workers.append(worker_sample(stats, lease_seconds, now - sampled_at))
        failure = around.replica_failure
        known = [self._cache.get(Kind.CAPABILITY, pool.namespace, name) for name in pool.spec.capabilities]
        return PoolObservation(
            replicas=around.replicas,
            signal=self._signal(leading_since, now),
            workers=tuple(workers),
            pods=tuple(pod_sample(pod) for pod in around.pods),
            startup_seconds=record.startup.seconds,
            rollout_in_progress=around.rollout_in_progress,
            quota_exceeded=failure is not None and "quota" in failure,
            conflict=record.contention.active,
            unknown_capabilities=tuple(
                name for name, obj in zip(pool.spec.capabilities, known, strict=True) if obj is None
            ),
            unreported_capabilities=tuple(
                name
                for name, obj in zip(pool.spec.capabilities, known, strict=True)
                if obj is not None and (pool.namespace, name) not in self._broker.capabilities
            ),
        )

    def samples(self, namespace: str, capabilities: set[str], now: float) -> Mapping[str, CapabilitySample]:
        """Return the numbers of these capabilities as far as the broker has said any."""
        found = {}
        for name in sorted(capabilities):
            stats = self._broker.capabilities.get((namespace, name))
            if stats is not None:
                rules = (self._cache.get(Kind.CAPABILITY, namespace, name) or {}).get("spec") or {}
                found[name] = capability_sample(
                    stats,
                    now - self._broker.sampled_at[namespace, name],
                    leases_per_minute=(rules.get("limits") or {}).get("leasesPerMinute"),
                    reserve_percent=(rules.get("fairness") or {}).get("interactiveReservePercent") or 0,
                )
        return found

    def stamp(self, namespace: str) -> tuple[object, ...]:
        """Return what changes whenever anything read here of a namespace may have changed, but for time."""
        return self._broker.epoch, self._broker.sequence, self._cache.changes(namespace)

    def fences(self) -> Mapping[str, str]:
        """Return pod UID -> operation for every fence in force."""
        return self._broker.fence_operations

    def cordons(self) -> Mapping[str, str]:
        """Return pod UID -> operation for every cordon in force."""
        return self._broker.cordon_operations

    def _signal(self, leading_since: float, now: float) -> Signal | None:
        age = self._broker.age_seconds(now)
        if age is None or self._broker.epoch is None:
            return None
        return Signal(
            epoch=self._broker.epoch,
            age_seconds=age,
            unbroken_since=max(leading_since, self._broker.unbroken_since),
        )

    def _lease_seconds(self, pool: Pool) -> float:
        """Return the longest lease of its capabilities: a worker silent for longer holds none of them."""
        seconds = [DEFAULT_LEASE_SECONDS]
        for name in pool.spec.capabilities:
            obj = self._cache.get(Kind.CAPABILITY, pool.namespace, name)
            lease = ((obj or {}).get("spec") or {}).get("lease") or {}
            if "seconds" in lease:
                seconds.append(float(lease["seconds"]))
        return max(seconds[1:], default=seconds[0])


def pod_sample(pod: Object) -> PodSample:
    """Return what the decision reads of a pod."""
    status = pod.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    ready, scheduled = conditions.get("Ready") or {}, conditions.get("PodScheduled") or {}
    annotations = pod["metadata"].get("annotations") or {}
    return PodSample(
        uid=pod["metadata"]["uid"],
        name=pod["metadata"]["name"],
        ready=ready.get("status") == "True",
        ready_changed=str(ready.get("lastTransitionTime") or ""),
        terminating="deletionTimestamp" in pod["metadata"],
        failing=start_failure(pod) is not None,
        unschedulable=scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable",
        deletion_cost=_cost(annotations.get(DELETION_COST)),
    )


def start_failure(pod: Object) -> str | None:
    """Return why a pod cannot start as it is; None when nothing says so."""
    status = pod.get("status") or {}
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _CANNOT_START:
                return str(waiting["reason"])
    unready = next(
        (c for c in status.get("conditions") or () if (c.get("type"), c.get("status")) == ("Ready", "False")), None
    )
    if unready is not None and any(_crashes(each, unready) for each in status.get("containerStatuses") or ()):
        return _CRASH_LOOP
    return None


def _crashes(container: Object, unready: Object) -> bool:
    """Whether a container that has ended again and again is in one of its short lives, or has just ended once more.

    It waits in CrashLoopBackOff only between two of them; what has not been ready since it started is not taken for
    repaired. A fenced worker has been: both times are the kubelet's.
    """
    if int(container.get("restartCount") or 0) < _CRASHES or "terminated" not in (container.get("lastState") or {}):
        return False
    state = container.get("state") or {}
    started = str((state.get("running") or {}).get("startedAt") or "")
    return "terminated" in state or str(unready.get("lastTransitionTime") or "") <= started


def unschedulable(pod: Object) -> str | None:
    """Return the scheduler's words about a pod that no node takes; None when nothing says so."""
    if "deletionTimestamp" in pod["metadata"]:
        return None
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            return str(condition.get("message", "")) if condition.get("reason") == "Unschedulable" else None
    return None


def _cost(value: str | None) -> int:
    try:
        return int(value) if value is not None else 0
    except ValueError:
        return 0
