"""Busy workers that somebody else takes away: a node drain, a descheduler, a rollout, a person."""

from leadsman_operator.scaling.model import PodSample, PoolObservation
from leadsman_operator.scaling.scale_in import ScaleInState, Verifying


def going(observation: PoolObservation) -> frozenset[str]:
    """Return the UIDs of the pods that are being deleted."""
    return frozenset(pod.uid for pod in observation.pods if pod.terminating)


def busy_evictions(
    observation: PoolObservation, before: frozenset[str] | None, state: ScaleInState
) -> list[tuple[PodSample, int]]:
    """Return the pods whose deletion is new since `before` and whose workers hold leases, with how many.

    None are told at a first look, which has nothing to compare with, nor while a scale-in of ours waits to see who
    goes: whom it takes wrongly it counts itself.
    """
    if before is None or isinstance(state, Verifying):
        return []
    leases: dict[str, int] = {}
    for worker in observation.workers:
        leases[worker.pod_uid] = leases.get(worker.pod_uid, 0) + worker.leases
    return [
        (pod, leases[pod.uid])
        for pod in observation.pods
        if pod.terminating and pod.uid not in before and leases.get(pod.uid)
    ]
