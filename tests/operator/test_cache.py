"""The cache: two sources in any order, and still one truth."""

from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.resources import POOL_LABEL, Kind


def obj(name, uid, version, *, namespace="ns", labels=None, **fields):
    meta = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": str(version)}
    if labels:
        meta["labels"] = labels
    return {"metadata": meta, **fields}


def pod(name, uid, version, pool):
    return obj(name, uid, version, labels={POOL_LABEL: pool})


def test_an_older_copy_does_not_replace_a_newer_one():
    cache = Cache()
    assert cache.put(Kind.DEPLOYMENT, obj("d", "u1", 9, spec="new"))
    assert not cache.put(Kind.DEPLOYMENT, obj("d", "u1", 10**1 - 2, spec="old"))
    assert cache.get(Kind.DEPLOYMENT, "ns", "d")["spec"] == "new"


def test_versions_are_compared_as_numbers():
    cache = Cache()
    cache.put(Kind.DEPLOYMENT, obj("d", "u1", 99, spec="old"))
    assert cache.put(Kind.DEPLOYMENT, obj("d", "u1", 100, spec="new"))


def test_a_deletion_holds_against_a_list_that_began_before_it():
    cache = Cache()
    cache.put(Kind.POD, pod("p", "u1", 5, "a"))
    cache.remove(Kind.POD, pod("p", "u1", 8, "a"))
    assert not cache.put(Kind.POD, pod("p", "u1", 6, "a"))
    assert cache.of_pool(Kind.POD, "ns", "a") == []


def test_the_late_deletion_of_a_predecessor_leaves_its_successor():
    cache = Cache()
    cache.put(Kind.WORKER_POOL, obj("w", "old", 5))
    cache.put(Kind.WORKER_POOL, obj("w", "new", 9))
    assert not cache.remove(Kind.WORKER_POOL, obj("w", "old", 8))
    assert cache.get(Kind.WORKER_POOL, "ns", "w")["metadata"]["uid"] == "new"


def test_a_full_list_removes_what_it_lacks_but_nothing_newer_than_itself():
    cache = Cache()
    cache.put(Kind.POD, pod("stays", "u1", 5, "a"))
    cache.put(Kind.POD, pod("went-unseen", "u2", 6, "a"))
    cache.put(Kind.POD, pod("made-since", "u3", 20, "a"))
    cache.put(
        Kind.POD,
        {
            **pod("elsewhere", "u4", 6, "a"),
            "metadata": {**pod("elsewhere", "u4", 6, "a")["metadata"], "namespace": "other"},
        },
    )
    gone = cache.prune(Kind.POD, "ns", ["u1"], 10)
    assert [o["metadata"]["name"] for o in gone] == ["went-unseen"]
    assert [o["metadata"]["name"] for o in cache.of_pool(Kind.POD, "ns", "a")] == ["made-since", "stays"]
    assert cache.get(Kind.POD, "other", "elsewhere")


def test_a_pod_that_changes_its_label_changes_its_pool():
    cache = Cache()
    cache.put(Kind.POD, pod("p", "u1", 5, "a"))
    cache.put(Kind.POD, pod("p", "u1", 6, "b"))
    assert cache.of_pool(Kind.POD, "ns", "a") == []
    assert len(cache.of_pool(Kind.POD, "ns", "b")) == 1


def test_what_is_large_and_never_read_is_not_kept():
    cache = Cache()
    big = obj("d", "u1", 1, spec={"replicas": 2})
    big["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    big["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{...}", "keep": "me"}
    cache.put(Kind.DEPLOYMENT, big)
    meta = cache.get(Kind.DEPLOYMENT, "ns", "d")["metadata"]
    assert "managedFields" not in meta
    assert meta["annotations"] == {"keep": "me"}
    assert "managedFields" in big["metadata"], "the caller's object is not touched"
