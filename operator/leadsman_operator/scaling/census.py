"""Who is there and what they hold: counts over a pool's pods and workers."""

from collections.abc import Iterable, Iterator, Sequence
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
    pods = ready = failing = unschedulable = 0
    for pod in observation.pods:
        if not pod.terminating:
            pods += 1
            ready += pod.ready
            failing += pod.failing and not pod.ready
            unschedulable += pod.unschedulable
    staying, going = observation.staying, observation.going
    unloaded = [worker for worker in staying if not worker.leases]
    return Census(
        pods=pods,
        ready=ready,
        starting=max(0, observation.replicas - ready),
        failing=failing,
        unschedulable=unschedulable,
        busy=len(staying) - len(unloaded),
        idle=_idle(staying, unloaded),
        draining=len(going),
        draining_with_leases=sum(worker.leases > 0 for worker in going),
    )


def _idle(staying: Sequence[WorkerSample], unloaded: Sequence[WorkerSample]) -> int:
    """Count the pods whose newest process is live and holds no lease."""
    if not unloaded:
        return 0
    return sum(worker.leases == 0 and worker.live for worker in _newest(staying))


def serving_workers(observation: PoolObservation) -> Iterator[WorkerSample]:
    """Workers that would take a task now if they had a free slot: live, not fenced or cordoned, in a ready pod.

    A pod's earlier process may still be known for a while; only the one heard last takes tasks.
    """
    not_ready = {pod.uid for pod in observation.pods if not pod.ready}
    live = [worker for worker in observation.staying if worker.live and not (worker.fenced or worker.cordoned)]
    return (worker for worker in _newest(live) if worker.pod_uid not in not_ready)


def capabilities_not_served(spec: PoolSpec, observation: PoolObservation) -> tuple[str, ...]:
    """Name the capabilities the pool lists and none of its live workers takes; none while no worker is live."""
    lists = {worker.capabilities for worker in observation.staying if worker.live}
    if not lists:
        return ()
    served = {name for capabilities in lists for name in capabilities}
    return tuple(name for name in spec.capabilities if name not in served)


def capabilities_in_vain(spec: PoolSpec, observation: PoolObservation) -> tuple[str, ...]:
    """Name those that no live worker takes and for which tasks wait."""
    wait = {work.name for work in observation.work if work.waiting or work.elsewhere}
    return tuple(name for name in capabilities_not_served(spec, observation) if name in wait)


def _newest(workers: Iterable[WorkerSample]) -> Iterable[WorkerSample]:
    """Of each pod the process that was heard last."""
    newest: dict[str, WorkerSample] = {}
    for worker in workers:
        known = newest.get(worker.pod_uid)
        if known is None or worker.last_heard_seconds < known.last_heard_seconds:
            newest[worker.pod_uid] = worker
    return newest.values()
