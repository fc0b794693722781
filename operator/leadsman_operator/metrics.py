"""What the operator measures, for Prometheus. Labels are bounded by the pools that exist; a pool's go with it."""

from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

_POOL = ("namespace", "pool")
_FENCE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_REACTION_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)

M = TypeVar("M", Counter, Gauge)


class OfPools(Generic[M]):
    """A metric whose first labels are a pool's namespace and name; knows the series of each pool.

    Without that the end of a pool is a search among the series of all: a second of processor time for two hundred
    pools of a thousand, in which nothing else is looked at.
    """

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._series: dict[tuple[str, str], set[tuple[str, ...]]] = {}

    def labels(self, namespace: str, pool: str, *more: str) -> M:
        """Return one series of a pool, a new one at first."""
        self._series.setdefault((namespace, pool), set()).add(more)
        series: M = self._metric.labels(namespace, pool, *more)
        return series

    def forget(self, namespace: str, pool: str) -> None:
        """Remove all series of a pool."""
        for more in self._series.pop((namespace, pool), ()):
            self._metric.remove(namespace, pool, *more)


class Metrics:
    """Every metric of one operator, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._of_pools: list[OfPools[Counter] | OfPools[Gauge]] = []

        self.decisions = self._counter(
            "decisions", "Looks at a pool by what was decided.", (*_POOL, "action", "reason")
        )
        self.clamps = self._counter("clamps", "Decisions that a bound changed, by the bound.", (*_POOL, "reason"))
        self.scale_writes = self._counter(
            "scale_writes",
            "Writes of a Deployment's replicas; outcome: written, conflict, changed, failed, unknown.",
            (*_POOL, "direction", "outcome"),
        )
        self.scale_in_steps = self._counter(
            "scale_in_steps", "Steps of scale-in operations, by the state entered.", (*_POOL, "step")
        )
        self.cordons = self._counter(
            "cordons", "Busy workers that were given nothing new, so that they empty and can go.", _POOL
        )
        self.wrong_victims = self._counter(
            "wrong_victims", "Pods that a scale-in took away although their worker held a lease.", _POOL
        )
        self.busy_evictions = self._counter(
            "busy_evictions",
            "Pods that somebody else than a scale-in began to delete while their worker held a lease.",
            _POOL,
        )
        self.desired_replicas = self._gauge(
            "desired_replicas", "Replicas that the last decision works towards.", _POOL
        )
        self.replicas = self._gauge("replicas", "Replicas in the Deployment's spec at the last decision.", _POOL)
        self.condition = self._gauge(
            "pool_condition", "1 when the pool's condition is True, else 0.", (*_POOL, "condition")
        )
        self.look_failures = self._counter("look_failures", "Looks at a pool that failed and are repeated.", _POOL)

        self.looks = Counter(
            "leadsman_operator_looks",
            "Looks at pools, by what made them necessary.",
            ["cause"],
            registry=self.registry,
        )
        self.signal_to_scale = Histogram(
            "leadsman_operator_signal_to_scale_seconds",
            "From the arrival of the broker's push to the answer of the scale write it led to.",
            registry=self.registry,
            buckets=_REACTION_BUCKETS,
        )
        self.enqueue_to_scale = Histogram(
            "leadsman_operator_enqueue_to_scale_seconds",
            "From the acceptance of the oldest waiting task to the write that woke its pool from zero.",
            registry=self.registry,
            buckets=_REACTION_BUCKETS,
        )
        self.look_seconds = Histogram(
            "leadsman_operator_look_seconds",
            "Duration of one look at a pool.",
            registry=self.registry,
            buckets=_REACTION_BUCKETS,
        )
        self.fence_seconds = Histogram(
            "leadsman_operator_fence_seconds",
            "How long a scale-in kept its workers fenced: from the request until they had gone or were lifted.",
            registry=self.registry,
            buckets=_FENCE_BUCKETS,
        )
        self.tick_lateness = Histogram(
            "leadsman_operator_tick_lateness_seconds",
            "How late the event loop came to a tick that it should make every second.",
            registry=self.registry,
            buckets=_REACTION_BUCKETS,
        )
        self.status_writes = Counter(
            "leadsman_operator_status_writes", "Writes of an object's status.", ["kind"], registry=self.registry
        )
        self.events_dropped = Counter(
            "leadsman_operator_events_dropped",
            "Events given up: replaced by a newer one of the same reason, or not writable.",
            registry=self.registry,
        )
        self.signal_age = Gauge(
            "leadsman_operator_signal_age_seconds", "Since the broker was last heard.", registry=self.registry
        )
        self.leader = Gauge(
            "leadsman_operator_leader", "1 while this process may write, else 0.", registry=self.registry
        )
        self.pools = Gauge("leadsman_operator_pools", "Worker pools that are known.", registry=self.registry)
        self.queue_depth = Gauge(
            "leadsman_operator_queue_depth", "Pools that are due for a look and wait.", registry=self.registry
        )

    def forget_pool(self, namespace: str, pool: str) -> None:
        """Remove every child of a pool that no longer exists."""
        for metric in self._of_pools:
            metric.forget(namespace, pool)

    def know_pool(self, namespace: str, pool: str) -> None:
        """Begin the counters that alerts watch at 0: a series whose first sample is 1 has no increase."""
        for metric in (self.wrong_victims, self.busy_evictions, self.look_failures):
            metric.labels(namespace, pool)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> OfPools[Counter]:
        metric = OfPools(Counter(f"leadsman_operator_{name}", text, labels, registry=self.registry))
        self._of_pools.append(metric)
        return metric

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> OfPools[Gauge]:
        metric = OfPools(Gauge(f"leadsman_operator_{name}", text, labels, registry=self.registry))
        self._of_pools.append(metric)
        return metric
