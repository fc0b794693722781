"""What was seen while the demo ran: filled by the watches, read by the story and the closing summary."""

from collections.abc import Callable
from dataclasses import dataclass, field

from leadsman.wire.stats import CapabilityStats, StatsSnapshot, WorkerStats

from demo.outcome import ReplicaChange
from demo.pods import Pod

Tell = Callable[[str, str, str], None]
"""Show one line: what kind of thing, about what, and what happened."""


@dataclass
class Record:
    """The state of both sides as last heard, and the history that the closing numbers are counted from."""

    clock: Callable[[], float]
    """Seconds since the batch was submitted; negative before."""
    tell: Tell
    changes: list[ReplicaChange] = field(default_factory=list)
    replicas: dict[str, int] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    leaving: list[Pod] = field(default_factory=list)
    """Pods that were seen with a deletion timestamp for the first time."""
    capabilities: dict[str, CapabilityStats] = field(default_factory=dict)
    workers: dict[str, WorkerStats] = field(default_factory=dict)

    def deployment(self, pool: str, replicas: int, ready: int) -> None:
        """A pool's Deployment as the API server now has it."""
        before = self.replicas.get(pool)
        self.ready[pool] = ready
        if before == replicas:
            return
        self.replicas[pool] = replicas
        self.changes.append(ReplicaChange(pool, replicas, self.clock()))
        if before is not None:
            self.tell("scale", pool, f"{before} → {replicas} replicas")

    def pod(self, pod: Pod, *, gone: bool) -> bool:
        """A pod as it now is; return whether it has just begun to leave."""
        before = self.pods.get(pod.uid)
        leaves = (pod.deleting or gone) and not (before is not None and before.deleting)
        if gone:
            self.pods.pop(pod.uid, None)
        else:
            self.pods[pod.uid] = pod
        if leaves:
            self.leaving.append(pod)
        return leaves

    def statistics(self, namespace: str, sample: StatsSnapshot, *, whole: bool) -> None:
        """A sample of the broker: the whole state, or what changed in it."""
        if whole:
            self.capabilities.clear()
            self.workers.clear()
        for _, name in (gone for gone in sample.gone_capabilities if gone[0] == namespace):
            self.capabilities.pop(name, None)
        for identifier in sample.gone_workers:
            self.workers.pop(identifier, None)
        self.capabilities |= {one.name: one for one in sample.capabilities if one.namespace == namespace}
        self.workers |= {one.id: one for one in sample.workers if one.namespace == namespace}

    def leases_of(self, pod_uid: str) -> int:
        """How many leases the broker knows of a pod's workers."""
        return sum(worker.leases for worker in self.workers.values() if worker.pod_uid == pod_uid)
