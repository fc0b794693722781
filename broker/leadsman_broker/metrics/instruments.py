"""Counters and histograms that are written as things happen."""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterator
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

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


class _Answers:
    """The requests of one method and route."""

    __slots__ = ("by_bucket", "by_status", "seconds")

    def __init__(self) -> None:
        self.by_status: Tally[int] = Tally()
        self.by_bucket = [0] * (len(_HTTP_BUCKETS) + 1)
        self.seconds = 0.0


class HttpMetrics(Collector):
    """What was asked over HTTP and how fast it was answered.

    Counted in plain numbers by the one thread that answers and that samples for Prometheus are taken on. With the
    library's own counters, their locks and their walk over the buckets, a request took four times as long to count.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers: dict[tuple[str, str], _Answers] = {}
        registry.register(self)

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count one request; `seconds` None: it was parked."""
        if route == "unknown":
            method = "any"  # the caller chooses the method of a path that does not exist
        answers = self._answers.get((method, route))
        if answers is None:
            answers = self._answers[method, route] = _Answers()
        answers.by_status[status] += 1
        if seconds is not None:
            answers.by_bucket[bisect_left(_HTTP_BUCKETS, seconds)] += 1
            answers.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield both families."""
        times = HistogramMetricFamily(
            "leadsman_http_request_seconds",
            "Time to answer a request that was not parked",
            labels=("method", "route"),
        )
        requests = CounterMetricFamily(
            "leadsman_http_requests",
            "Requests by answer; 499: the caller left before it",
            labels=("method", "route", "code"),
        )
        bounds = [*map(floatToGoString, (*_HTTP_BUCKETS, inf))]
        for labels, answers in self._answers.items():
            for status, count in answers.by_status.items():
                requests.add_metric((*labels, str(status)), count)
            if any(answers.by_bucket):
                up_to = accumulate(answers.by_bucket)
                times.add_metric(labels, [*zip(bounds, up_to, strict=True)], answers.seconds)
        yield times
        yield requests
