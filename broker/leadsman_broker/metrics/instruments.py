"""Counters and histograms that are written as things happen."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from leadsman_broker.core.rows import Changes

_COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_STEP_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_BATCH_BUCKETS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
_HTTP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LATENESS_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class EngineMetrics:
    """How the engine does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.step_seconds = Histogram(
            "leadsman_step_seconds",
            "Time the core took for a batch of commands",
            buckets=_STEP_BUCKETS,
            registry=registry,
        )
        self.commit_seconds = Histogram(
            "leadsman_commit_seconds",
            "Time from handing a batch to the store until it was durable",
            buckets=_COMMIT_BUCKETS,
            registry=registry,
        )
        self.commit_rows = Histogram(
            "leadsman_commit_tasks",
            "Tasks that a commit accepted, changed or ended",
            buckets=_BATCH_BUCKETS,
            registry=registry,
        )
        self.lateness_seconds = Histogram(
            "leadsman_loop_lateness_seconds",
            "How late the event loop ran a timer",
            buckets=_LATENESS_BUCKETS,
            registry=registry,
        )

    def committed(self, seconds: float, changes: Changes) -> None:
        """Count one commit."""
        self.commit_seconds.observe(seconds)
        self.commit_rows.observe(len(changes.accepted) + len(changes.updated) + len(changes.ended))


class HttpMetrics:
    """What was asked over HTTP and how fast it was answered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "leadsman_http_request_seconds",
            "Time to answer a request that was not parked",
            ("method", "route"),
            buckets=_HTTP_BUCKETS,
            registry=registry,
        )
        self._requests = Counter(
            "leadsman_http_requests",
            "Requests by answer; 499: the caller left before it",
            ("method", "route", "code"),
            registry=registry,
        )
        self._histograms: dict[tuple[str, str], Histogram] = {}
        self._counters: dict[tuple[str, str, int], Counter] = {}

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count one request; `seconds` None: it was parked."""
        if route == "unknown":
            method = "any"  # the caller chooses the method of a path that does not exist
        counter = self._counters.get((method, route, status))
        if counter is None:
            counter = self._requests.labels(method, route, str(status))
            self._counters[method, route, status] = counter
        counter.inc()
        if seconds is None:
            return
        histogram = self._histograms.get((method, route))
        if histogram is None:
            histogram = self._histograms[method, route] = self._seconds.labels(method, route)
        histogram.observe(seconds)
