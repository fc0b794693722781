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


def test_what_is_too_old_to_be_used_is_not_kept():
    divisions = Divisions()
    for number in range(50):
        divisions.of((("ns", f"a-{number}"), ("ns", "b")), "stamp", 10.0 + number / 100, Counted())

    divisions.of((("ns", "c"), ("ns", "d")), "stamp", 10.25 + LASTS_SECONDS, Counted())

    assert len(divisions._known) == 25


def test_a_pool_that_went_takes_its_divisions_with_it():
    divisions, divide = Divisions(), Counted()
    divisions.of((("ns", "a"), ("ns", "b")), "stamp", 10.0, divide)
    divisions.of((("ns", "c"), ("ns", "d")), "stamp", 10.0, divide)

    divisions.forget(("ns", "a"))

    assert list(divisions._known) == [(("ns", "c"), ("ns", "d"))]


def test_a_namespaces_changes_are_counted_but_not_those_of_pools():
    cache = Cache()
    meta = {"namespace": "ns", "name": "x", "uid": "u", "resourceVersion": "1"}
    newer = {**meta, "resourceVersion": "2"}

    cache.put(Kind.WORKER_POOL, {"metadata": meta})
    assert cache.changes("ns") == 0
    cache.put(Kind.POD, {"metadata": meta})
    made = cache.changes("ns")
    cache.put(Kind.POD, {"metadata": meta})
    assert cache.changes("ns") == made
    cache.put(Kind.POD, {"metadata": newer})
    changed = cache.changes("ns")
    cache.remove(Kind.POD, {"metadata": newer})
    assert len({0, made, changed}) == 3
    assert (cache.changes("ns"), cache.changes("other")) == (0, 0)


def test_the_changes_of_a_namespace_that_was_empty_for_a_while_are_others_than_before():
    cache, seen = Cache(), set()
    for number in range(10):
        obj = {"metadata": {"namespace": "ns", "name": "x", "uid": f"u{number}", "resourceVersion": "1"}}
        cache.put(Kind.POD, obj)
        seen.add(cache.changes("ns"))
        cache.remove(Kind.POD, obj)
    assert len(seen) == 10


def test_a_namespace_that_went_leaves_nothing_behind():
    cache = Cache()
    for number in range(10):
        obj = {"metadata": {"namespace": f"ns-{number}", "name": "x", "uid": f"u{number}", "resourceVersion": "1"}}
        for kind in (Kind.POD, Kind.WORKER_POOL):
            cache.put(kind, {"metadata": {**obj["metadata"], "uid": f"{kind.plural} {number}"}})
        for kind in (Kind.POD, Kind.WORKER_POOL):
            cache.remove(kind, {"metadata": {**obj["metadata"], "uid": f"{kind.plural} {number}"}})
    assert not cache._changed
    assert not cache._held
