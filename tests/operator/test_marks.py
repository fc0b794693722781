"""Marks on busy pods: few writes, and never somebody else's annotation."""

from leadsman_operator.kube.pods import BUSY_MARKS, DELETION_COST
from leadsman_operator.reconcile.marks import mark_changes
from leadsman_operator.scaling.model import PoolObservation, WorkerSample


def pod(uid, **annotations):
    return {"metadata": {"name": f"pod-{uid}", "uid": uid, "annotations": annotations}}


def worker(uid, leases=0, idle=0.0, **fields):
    return WorkerSample(pod_uid=uid, slots=1, capabilities=("x",), leases=leases, idle_seconds=idle, **fields)


def changes(pods, workers, idle_seconds=60):
    observation = PoolObservation(replicas=len(pods), workers=tuple(workers))
    return {one.uid: dict(one.annotations) for one in mark_changes(observation, tuple(pods), idle_seconds)}


def test_a_worker_with_its_first_lease_is_marked_once():
    assert changes([pod("a")], [worker("a", leases=1)]) == {"a": dict(BUSY_MARKS)}
    assert changes([pod("a", **BUSY_MARKS)], [worker("a", leases=1)]) == {}


def test_the_marks_stay_until_the_worker_has_been_idle_for_the_window():
    marked = [pod("a", **BUSY_MARKS)]
    assert changes(marked, [worker("a", idle=59)]) == {}
    assert changes(marked, [worker("a", idle=61)]) == {"a": dict.fromkeys(BUSY_MARKS)}


def test_a_worker_that_nobody_has_heard_of_keeps_its_marks():
    assert changes([pod("a", **BUSY_MARKS)], []) == {}


def test_a_pod_that_is_on_its_way_out_is_left_alone():
    leaving = pod("a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert changes([leaving], [worker("a", leases=1)]) == {}
    assert changes([pod("b", **BUSY_MARKS)], [worker("b", idle=999, fenced=True)]) == {}


def test_a_deletion_cost_of_somebody_elses_is_not_removed():
    assert changes([pod("a", **{DELETION_COST: "5"})], [worker("a", idle=999)]) == {}


def test_busy_pods_are_marked_before_idle_ones_are_unmarked():
    pods = [pod("idle", **BUSY_MARKS), pod("busy")]
    workers = [worker("idle", idle=999), worker("busy", leases=1)]
    assert list(changes(pods, workers)) == ["busy", "idle"]
