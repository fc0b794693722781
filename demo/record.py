"""What was seen while the demo ran: filled by the watches, read by the story and the closing summary."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from demo.outcome import ReplicaChange
from demo.pods import Pod
from leadsman.wire.stats import CapabilityStats, StatsSnapshot, WorkerStats

Tell = Callable[[str, str, str], None]
"""Show one line: what kind of thing, about what, and what happened."""


@dataclass
class Record:
    """The state of both sides as last heard, and the history that the closing numbers are counted from."""

    clock: Callable[[], float]
    """Seconds since the batch was submitted."""
    tell: Tell
    begun: bool = False
    """Whether the batch was submitted; what happened before it is not part of the story."""
    changes: list[ReplicaChange] = field(default_factory=list)
    replicas: dict[str, int] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    capabilities: dict[str, CapabilityStats] = field(default_factory=dict)
    workers: dict[str, WorkerStats] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget what was before the batch; the sizes that the fleets have now are where it starts."""
        self.begun = True
        self.changes = [ReplicaChange(pool, replicas, self.clock()) for pool, replicas in self.replicas.items()]

    def deployment(self, pool: str, replicas: int, ready: int) -> None:
        """Note a pool's Deployment, and show it when its wanted replicas changed."""
        before = self.replicas.get(pool)
        self.ready[pool] = ready
        if before == replicas:
            return
        self.replicas[pool] = replicas
        self.changes.append(ReplicaChange(pool, replicas, self.clock()))
        if self.begun:
            self.tell("scale", pool, f"{before} → {replicas} replicas")

    def pod(self, pod: Pod, *, gone: bool) -> bool:
        """Note a pod; return whether it has just begun to leave."""
        before = self.pods.get(pod.uid)
        leaves = (pod.deleting or gone) and not (before is not None and before.deleting)
        if gone:
            self.pods.pop(pod.uid, None)
        else:
            self.pods[pod.uid] = pod
        return leaves

    def statistics(self, sample: StatsSnapshot) -> None:
        """Note the broker's queues and workers."""
        self.capabilities = {one.name: one for one in sample.capabilities}
        self.workers = {one.id: one for one in sample.workers}

    def present_workers(self, pool: str) -> list[WorkerStats]:
        """Return the pool's worker in each pod that is there: the broker remembers gone ones for a while."""
        own = [one for one in self.workers.values() if one.pool == pool and one.pod_uid in self.pods]
        # Of several lives of one pod's container the one that was heard last counts.
        own.sort(key=lambda one: one.last_heard_seconds, reverse=True)
        return list({one.pod_uid: one for one in own}.values())


@dataclass(frozen=True, slots=True)
class Totals:
    """The broker's counters over the demo's queues, which outlive a run."""

    completed: int
    reclaimed: int

    @classmethod
    def of(cls, sample: StatsSnapshot) -> "Totals":
        """Add up a sample."""
        return cls.of_queues(sample.capabilities)

    @classmethod
    def of_queues(cls, queues: Iterable[CapabilityStats]) -> "Totals":
        """Add up these queues."""
        queues = list(queues)
        return cls(sum(queue.completed_total for queue in queues), sum(queue.reclaimed_total for queue in queues))
