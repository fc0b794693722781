"""Who is there and what they hold: counts over a pool's pods and workers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leadsman_operator.scaling.model import PoolObservation, PoolSpec, WorkerSample


@dataclass(frozen=True, slots=True)
class Census:
    """A pool's pods and workers, each counted once in its part."""

    pods: int
    """Without those that are terminating."""
    ready: int
    starting: int
    """Replicas that are not ready yet, whether or not their pods exist."""
    failing: int
    unschedulable: int
    busy: int
    """Workers that hold leases and are not going away."""
    idle: int
    """Live workers that hold none and are not going away."""
    draining: int
    """Workers that are going away: their pod is terminating, or they said so."""
    draining_with_leases: int

    @property
    def mostly_failing(self) -> bool:
        """At least as many fail to start as are ready: another one would fail too."""
        return self.failing > 0 and self.failing >= self.ready


def census(observation: PoolObservation) -> Census:
    """Count a pool's pods and workers."""
    present = [pod for pod in observation.pods if not pod.terminating]
    ready = sum(pod.ready for pod in present)
    terminating = _terminating(observation)
    going = [worker for worker in observation.workers if _is_going(worker, terminating)]
    staying = [worker for worker in observation.workers if not _is_going(worker, terminating)]
    return Census(
        pods=len(present),
        ready=ready,
        starting=max(0, observation.replicas - ready),
        failing=sum(pod.failing and not pod.ready for pod in present),
        unschedulable=sum(pod.unschedulable for pod in present),
        busy=sum(worker.leases > 0 for worker in staying),
        idle=sum(worker.leases == 0 and worker.live for worker in _newest(staying)),
        draining=len(going),
        draining_with_leases=sum(worker.leases > 0 for worker in going),
    )


def staying_workers(observation: PoolObservation) -> Iterator[WorkerSample]:
    """Workers that are not going away. A silent one is among them until its leases are reclaimed."""
    terminating = _terminating(observation)
    return (worker for worker in observation.workers if not _is_going(worker, terminating))


def serving_workers(observation: PoolObservation) -> Iterator[WorkerSample]:
    """Workers that would take a task now if they had a free slot: live, not fenced or cordoned, in a ready pod.

    A pod's earlier process may still be known for a while; only the one heard last takes tasks.
    """
    not_ready = {pod.uid for pod in observation.pods if not pod.ready}
    live = [
        worker for worker in staying_workers(observation) if worker.live and not (worker.fenced or worker.cordoned)
    ]
    return (worker for worker in _newest(live) if worker.pod_uid not in not_ready)


def leased_by_capability(observation: PoolObservation) -> Mapping[str, int]:
    """Count L: leases of the workers that stay. What a draining worker holds, it finishes; it needs no slot."""
    leased: dict[str, int] = {}
    for worker in staying_workers(observation):
        for name, count in worker.leases_by_capability.items():
            leased[name] = leased.get(name, 0) + count
    return leased


def capabilities_not_served(spec: PoolSpec, observation: PoolObservation) -> tuple[str, ...]:
    """Name the capabilities the pool lists and none of its live workers takes; none while no worker is live."""
    live = [worker for worker in staying_workers(observation) if worker.live]
    if not live:
        return ()
    served = {name for worker in live for name in worker.capabilities}
    return tuple(name for name in spec.capabilities if name not in served)


def _newest(workers: Iterable[WorkerSample]) -> Iterable[WorkerSample]:
    """Of each pod the process that was heard last."""
    newest: dict[str, WorkerSample] = {}
    for worker in workers:
        known = newest.get(worker.pod_uid)
        if known is None or worker.last_heard_seconds < known.last_heard_seconds:
            newest[worker.pod_uid] = worker
    return newest.values()


def _terminating(observation: PoolObservation) -> frozenset[str]:
    return frozenset(pod.uid for pod in observation.pods if pod.terminating)


def _is_going(worker: WorkerSample, terminating: frozenset[str]) -> bool:
    return worker.draining or worker.pod_uid in terminating
