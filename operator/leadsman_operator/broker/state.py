"""The broker's numbers as they stand: one snapshot, and every change since.

A number that cannot be true (a negative count, a stream of another broker life in the middle of this one) makes the
whole state untrusted rather than partly right: the stream is opened again and begins with a full snapshot.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from leadsman.wire.stats import CapabilityStats, CordonStats, FenceStats, StatsSnapshot, WorkerStats

Name = tuple[str, str]
"""Namespace and name."""


class OddSignalError(Exception):
    """What came cannot be what the broker means; the stream is to be opened again."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What a message changed: the queues and the pools that should look again."""

    everything: bool = False
    capabilities: frozenset[Name] = frozenset()
    pools: frozenset[Name] = frozenset()


@dataclass(slots=True)
class BrokerState:
    """All that is known of the broker. Times are the caller's monotonic clock, in seconds.

    `stale_seconds`: silence for longer breaks the signal, also when numbers flow again afterwards.
    """

    stale_seconds: float
    epoch: str | None = None
    sequence: int = -1
    heard_at: float | None = None
    unbroken_since: float = 0.0
    """Since when this broker life has lasted and was never silent for too long."""
    capabilities: dict[Name, CapabilityStats] = field(default_factory=dict)
    sampled_at: dict[Name, float] = field(default_factory=dict)
    """When each queue's numbers came."""
    workers: dict[str, WorkerStats] = field(default_factory=dict)
    worker_at: dict[str, float] = field(default_factory=dict)
    fences: dict[str, FenceStats] = field(default_factory=dict)
    """By pod UID."""
    fence_operations: dict[str, str] = field(default_factory=dict)
    """By pod UID, who set it; made once a message, since every look at a pool reads it."""
    cordons: dict[str, CordonStats] = field(default_factory=dict)
    """By pod UID."""
    cordon_operations: dict[str, str] = field(default_factory=dict)
    """Likewise."""
    _by_pool: dict[Name, set[str]] = field(default_factory=lambda: defaultdict(set))

    def snapshot(self, message: StatsSnapshot, now: float) -> Changed:
        """Take everything anew. Raises OddSignalError, also for one that is older than what this life has said.

        A cache on the way may have kept it, and would go on saying it.
        """
        _require_sane(message)
        if message.epoch == self.epoch:
            self._require_continues(message)
        if self.epoch != message.epoch or not self.fresh(now):
            self.unbroken_since = now
        self.epoch, self.sequence, self.heard_at = message.epoch, message.sequence, now
        self.capabilities.clear()
        self.sampled_at.clear()
        self.workers.clear()
        self.worker_at.clear()
        self._by_pool.clear()
        self._merge(message, now)
        return Changed(everything=True)

    def delta(self, message: StatsSnapshot, now: float) -> Changed:
        """Take what changed. Raises OddSignalError when it does not continue what is known."""
        self._require_continues(message)
        _require_sane(message)
        regained = self._hear(message, now)
        capabilities = {(c.namespace, c.name) for c in message.capabilities} | set(message.gone_capabilities)
        pools = {
            (w.namespace, w.pool)
            for w in (*message.workers, *(self.workers[i] for i in message.gone_workers if i in self.workers))
            if w.pool is not None
        }
        if {f.pod_uid for f in message.fences} != self.fences.keys():
            pools |= self._pools_of_pods({f.pod_uid for f in message.fences} ^ self.fences.keys())
        if {c.pod_uid for c in message.cordons} != self.cordons.keys():
            pools |= self._pools_of_pods({c.pod_uid for c in message.cordons} ^ self.cordons.keys())
        for gone in message.gone_capabilities:
            self.capabilities.pop(gone, None)
            self.sampled_at.pop(gone, None)
        for identity in message.gone_workers:
            self._drop_worker(identity)
        self._merge(message, now)
        return Changed(regained, frozenset(capabilities), frozenset(pools))

    def tick(self, message: StatsSnapshot, now: float) -> Changed:
        """Nothing changed, and the broker lives. Raises OddSignalError."""
        self._require_continues(message)
        regained = self._hear(message, now)
        self._bars(message)
        return Changed(regained)

    def age_seconds(self, now: float) -> float | None:
        """How long ago the broker was heard; None: never."""
        return None if self.heard_at is None else max(0.0, now - self.heard_at)

    def fresh(self, now: float) -> bool:
        """Whether the broker was heard within the stale time."""
        age = self.age_seconds(now)
        return age is not None and age <= self.stale_seconds

    def workers_of(self, namespace: str, pool: str) -> Iterator[tuple[WorkerStats, float]]:
        """Every worker that says it belongs to the pool, and when its numbers came."""
        for identity in sorted(self._by_pool.get((namespace, pool), ())):
            yield self.workers[identity], self.worker_at[identity]

    def _hear(self, message: StatsSnapshot, now: float) -> bool:
        """Note that the broker lives; True when it had been silent for too long, which concerns every pool."""
        regained = not self.fresh(now)
        if regained:
            self.unbroken_since = now
        self.sequence, self.heard_at = message.sequence, now
        return regained

    def _merge(self, message: StatsSnapshot, now: float) -> None:
        for capability in message.capabilities:
            key = (capability.namespace, capability.name)
            self.capabilities[key] = capability
            self.sampled_at[key] = now
        for worker in message.workers:
            self._drop_worker(worker.id)
            self.workers[worker.id] = worker
            self.worker_at[worker.id] = now
            if worker.pool is not None:
                self._by_pool[worker.namespace, worker.pool].add(worker.id)
        self._bars(message)

    def _bars(self, message: StatsSnapshot) -> None:
        """Take the fences and cordons in force; every message has all of them."""
        self.fences = {fence.pod_uid: fence for fence in message.fences}
        self.cordons = {cordon.pod_uid: cordon for cordon in message.cordons}
        self.fence_operations = {uid: fence.operation for uid, fence in self.fences.items()}
        self.cordon_operations = {uid: cordon.operation for uid, cordon in self.cordons.items()}

    def _drop_worker(self, identity: str) -> None:
        known = self.workers.pop(identity, None)
        self.worker_at.pop(identity, None)
        if known is None or known.pool is None:
            return
        members = self._by_pool[known.namespace, known.pool]
        members.discard(identity)
        if not members:
            del self._by_pool[known.namespace, known.pool]

    def _pools_of_pods(self, uids: Iterable[str]) -> set[Name]:
        wanted = set(uids)
        return {(w.namespace, w.pool) for w in self.workers.values() if w.pool is not None and w.pod_uid in wanted}

    def _require_continues(self, message: StatsSnapshot) -> None:
        if self.epoch is None:
            raise OddSignalError("a change before the first snapshot")
        if message.epoch != self.epoch:
            raise OddSignalError(f"a change of broker life {message.epoch} within {self.epoch}")
        if message.sequence < self.sequence:
            raise OddSignalError(f"sequence went back from {self.sequence} to {message.sequence}")


def _require_sane(message: StatsSnapshot) -> None:
    for capability in message.capabilities:
        counts = (
            capability.ready,
            capability.delayed,
            capability.leased,
            capability.waiting,
            capability.leasable,
            capability.due_soon,
            *capability.blocked.values(),
        )
        seconds = (capability.oldest_age_seconds, capability.service_seconds, capability.next_due_seconds)
        if min(counts) < 0 or any(not _finite(value) for value in seconds if value is not None):
            raise OddSignalError(f"impossible numbers for {capability.namespace}/{capability.name}")
    for worker in message.workers:
        if worker.leases < 0 or worker.slots < 0 or not _finite(worker.idle_seconds):
            raise OddSignalError(f"impossible numbers for worker {worker.id}")


def _finite(value: float) -> bool:
    return 0 <= value < 1e12
