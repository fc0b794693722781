"""Pools that share queues decide from one division of one sample."""

from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.resources import Kind
from leadsman_operator.reconcile.divisions import LASTS_SECONDS, Divisions
from leadsman_operator.scaling import Shares


class Counted:
    """Divides, and counts how often."""

    def __init__(self):
        self.times = 0

    def __call__(self):
        self.times += 1
        return Shares({}, {"browser": self.times})


def test_many_looks_at_one_sample_divide_once():
    divisions, divide = Divisions(), Counted()

    found = [divisions.of(("a", "b"), "stamp", now, divide) for now in (10.0, 10.1, 10.9)]

    assert divide.times == 1
    assert found[0] is found[2]


def test_news_and_time_make_it_divide_again():
    divisions, divide = Divisions(), Counted()
    divisions.of(("a", "b"), "stamp", 10.0, divide)

    divisions.of(("a", "b"), "other stamp", 10.1, divide)
    divisions.of(("a", "b"), "other stamp", 10.1 + LASTS_SECONDS, divide)
    divisions.of(("c", "d"), "other stamp", 10.2, divide)

    assert divide.times == 4


def test_a_namespaces_changes_are_counted_but_not_those_of_pools():
    cache = Cache()
    meta = {"namespace": "ns", "name": "x", "uid": "u", "resourceVersion": "1"}
    newer = {**meta, "resourceVersion": "2"}

    cache.put(Kind.WORKER_POOL, {"metadata": meta})
    assert cache.changes("ns") == 0
    cache.put(Kind.POD, {"metadata": meta})
    cache.put(Kind.POD, {"metadata": meta})
    assert cache.changes("ns") == 1
    cache.put(Kind.POD, {"metadata": newer})
    cache.remove(Kind.POD, {"metadata": newer})
    assert (cache.changes("ns"), cache.changes("other")) == (3, 0)
