"""The series of a pool come and go with it, and nobody else's with them."""

from leadsman_operator.metrics import Metrics


def series(metrics, pool):
    """Names and labels of all samples of a pool."""
    return [
        (sample.name, sample.labels)
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("pool") == pool
    ]


def measure(metrics, pool):
    metrics.know_pool("ns", pool)
    metrics.decisions.labels("ns", pool, "ScaleOut", "Depth").inc()
    metrics.decisions.labels("ns", pool, "Hold", "AtMaxReplicas").inc()
    metrics.condition.labels("ns", pool, "Ready").set(1)
    metrics.replicas.labels("ns", pool).set(3)


def test_a_pool_that_went_leaves_no_series_and_takes_none_of_another():
    metrics = Metrics()
    for pool in ("a", "b"):
        measure(metrics, pool)
    before = series(metrics, "b")

    metrics.forget_pool("ns", "a")

    assert series(metrics, "a") == []
    assert series(metrics, "b") == before
    assert len(before) > 5


def test_a_namesake_begins_at_zero():
    metrics = Metrics()
    measure(metrics, "a")
    metrics.forget_pool("ns", "a")

    metrics.decisions.labels("ns", "a", "Hold", "AtMaxReplicas").inc()

    assert [name for name, _ in series(metrics, "a") if name.endswith("_total")] == [
        "leadsman_operator_decisions_total"
    ]


def test_the_end_of_a_pool_reads_no_series_of_the_others():
    """It was a search among all: nine milliseconds for each pool that went among a thousand."""
    metrics = Metrics()
    for number in range(50):
        measure(metrics, f"pool-{number}")
    reads = []

    class Watched(dict):
        def keys(self):
            reads.append("keys")
            return super().keys()

        def __iter__(self):
            reads.append("iter")
            return super().__iter__()

    for metric in metrics._of_pools:
        metric._metric._metrics = Watched(metric._metric._metrics)
    metrics.forget_pool("ns", "pool-7")

    assert reads == []
    assert series(metrics, "pool-7") == []
