"""Which workers may go: those that hold no lease, pods that are not ready first, then the longest idle.

Pods that are not ready come first because the ReplicaSet controller deletes them first in any case. Among the ready
ones those that were cordoned so that they would empty come first: they are out of service already. A worker that
is silent, or a pod that no worker has registered from, comes last: its readiness would not follow a fence.
"""

from collections.abc import Collection
from dataclasses import dataclass

from leadsman.reasons import Reason
from leadsman_operator.scaling.census import census
from leadsman_operator.scaling.model import PodName, PodSample, PoolObservation, WorkerSample


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods that may be taken away, in order, or why none may."""

    pods: tuple[PodName, ...] = ()
    guards: tuple[PodName, ...] = ()
    """The other pods that are not ready and hold no lease: they would be deleted before a ready victim."""
    reason: Reason | None = None
    note: str = ""


def victims(
    observation: PoolObservation, count: int, *, max_draining: int = 1, avoid: Collection[str] = frozenset()
) -> Victims:
    """Choose up to `count` pods; fewer when fewer hold no lease. `avoid`: pods that are chosen last."""
    present = [pod for pod in observation.pods if not pod.terminating]
    everyone = count >= observation.replicas
    if observation.rollout_in_progress and not everyone:
        return Victims(reason=Reason.ROLLOUT_IN_PROGRESS, note="a rollout chooses its own pods")
    draining = census(observation).draining_with_leases
    if draining >= max_draining:
        return Victims(reason=Reason.WORKERS_BUSY, note=f"{draining} workers that are stopping still hold tasks")
    by_pod: dict[str, list[WorkerSample]] = {}
    for worker in observation.workers:
        by_pod.setdefault(worker.pod_uid, []).append(worker)
    busy = {uid for uid, workers in by_pod.items() if any(worker.leases for worker in workers)}
    exposed = [pod for pod in present if pod.uid in busy and not pod.ready]
    if exposed:
        # Not ready ranks before everything else: the controller would take exactly this one.
        return Victims(reason=Reason.WORKERS_BUSY, note=f"{exposed[0].name} holds tasks and is not ready")
    free = sorted(
        (pod for pod in present if pod.uid not in busy),
        key=lambda pod: _rank(pod, by_pod.get(pod.uid, []), avoid),
    )
    if not free:
        return Victims(reason=Reason.WORKERS_BUSY, note=f"all {len(busy)} workers hold tasks")
    chosen, rest = free[:count], free[count:]
    return Victims(
        tuple(PodName(pod.uid, pod.name) for pod in chosen),
        tuple(PodName(pod.uid, pod.name) for pod in rest if not pod.ready),
    )


def _rank(pod: PodSample, workers: list[WorkerSample], avoid: Collection[str]) -> tuple[int, int, int, float, str]:
    live = [worker for worker in workers if worker.live]
    answers = bool(live) and pod.uid not in avoid
    idle = min((worker.idle_seconds for worker in live), default=0.0)
    cordoned = any(worker.cordoned for worker in live)
    return (int(pod.ready), int(pod.ready and not answers), int(not cordoned), -idle, pod.uid)
