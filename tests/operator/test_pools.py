"""The index of pools: parsed once, grouped by shared queues, ordered by age."""

import pytest

from leadsman_operator.reconcile.pools import PoolIndex


def pool(name, *, uid=None, generation=1, created="2026-01-01T00:00:00Z", **spec):
    return {
        "apiVersion": "leadsman.dev/v1alpha1",
        "kind": "WorkerPool",
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": uid or name,
            "resourceVersion": "1",
            "generation": generation,
            "creationTimestamp": created,
        },
        "spec": {"maxReplicas": 3, "image": "any", **spec},
    }


def index(*pools):
    found = PoolIndex()
    for one in pools:
        found.put(one)
    return found


def names(pools):
    return [one.name for one in pools]


def test_pools_linked_by_queues_are_one_group_also_over_others():
    found = index(
        pool("a", capabilities=["x"]),
        pool("b", capabilities=["x", "y"]),
        pool("c", capabilities=["y"]),
        pool("d", capabilities=["z"]),
    )
    assert names(found.group(("ns", "a"))) == ["a", "b", "c"]
    assert names(found.group(("ns", "d"))) == ["d"]
    assert names(found.serving("ns", "x")) == ["a", "b"]


def test_a_pool_that_serves_something_else_now_leaves_its_group():
    found = index(pool("a", capabilities=["x"]), pool("b", capabilities=["x"]))
    found.put(pool("b", generation=2, capabilities=["y"]))
    assert names(found.group(("ns", "a"))) == ["a"]
    assert names(found.serving("ns", "y")) == ["b"]


def test_without_a_list_a_pool_serves_the_queue_of_its_name():
    assert names(index(pool("browser")).serving("ns", "browser")) == ["browser"]


def test_a_queue_may_have_the_slots_that_all_its_pools_may_grow_to_and_none_are_known_without_a_pool():
    found = index(
        pool("a", capabilities=["x"], slotsPerWorker=4),
        pool("b", capabilities=["x", "y"], maxReplicas=5),
    )

    assert [found.max_slots("ns", name) for name in ("x", "y", "z")] == [17, 5, None]

    found.remove(("ns", "b"))
    assert [found.max_slots("ns", name) for name in ("x", "y")] == [12, None]


def test_of_the_pools_on_one_deployment_the_older_comes_first():
    reference = {"deploymentRef": {"name": "mine"}, "image": None}
    found = index(
        pool("young", created="2026-01-02T00:00:00Z", **reference),
        pool("old", created="2026-01-01T00:00:00Z", **reference),
    )
    assert names(found.scaling("ns", "mine")) == ["old", "young"]


def test_a_status_change_does_not_parse_the_spec_again():
    found = index(pool("a"))
    before = found.get(("ns", "a"))
    found.put({**pool("a"), "status": {"replicas": 3}})
    after = found.get(("ns", "a"))
    assert before is not None
    assert after is not None
    assert after.model is before.model
    assert after.obj["status"] == {"replicas": 3}


def test_a_spec_that_cannot_be_read_is_kept_with_what_is_wrong():
    found = index(pool("a", maxReplicas="many"))
    assert found.get(("ns", "a")) is None
    assert "maxReplicas" in (found.problem(("ns", "a")) or "")
    assert found.all_keys() == [("ns", "a")]
    found.put(pool("a"))
    assert found.problem(("ns", "a")) is None


@pytest.mark.parametrize("wrong", [{}, {"maxReplicas": "many"}])
def test_a_removed_pool_leaves_no_trace(wrong):
    found = index(pool("a", capabilities=["x", "y"]))
    found.put(pool("a", capabilities=["x", "y"], **wrong))
    found.remove(("ns", "a"))
    assert found.all_keys() == []
    assert found.problem(("ns", "a")) is None
    assert found.serving("ns", "x") == []
    assert found.served("ns") == set()
