"""Fences: a pod goes out of service only while it holds nothing."""

from core_rig import CAPABILITY, Rig
from leadsman.wire.leases import WorkerState
from leadsman.wire.workers import FenceOutcome
from leadsman_broker.core import commands as c


def fence(rig, *pods, operation="op", ttl=300.0):
    return rig.do(c.Fence(operation, pods or ("w1",), ttl))


def test_a_worker_that_holds_nothing_is_fenced_and_gets_nothing_more():
    rig = Rig()
    rig.beat("w1")
    assert fence(rig)[0].outcome is FenceOutcome.FENCED
    rig.submit()
    assert rig.lease("w1") == []
    assert rig.worker("w1").state is WorkerState.FENCED
    assert rig.worker("w1").operation == "op"
    assert rig.beat("w1").worker is WorkerState.FENCED


def test_a_worker_that_holds_a_lease_is_not_fenced_and_nothing_changes():
    rig = Rig()
    rig.submit(2)
    rig.lease("w1", slots=3, free=2)
    (result,) = fence(rig)
    assert (result.outcome, result.leases) == (FenceOutcome.BUSY, 2)
    assert not rig.last.changes
    rig.submit()
    assert len(rig.lease("w1", slots=3, free=1)) == 1


def test_a_fence_ends_the_parked_call_empty():
    rig = Rig()
    call = rig.park("w1")
    fence(rig)
    assert rig.got(call) == []
    assert rig.answers[call].worker is WorkerState.FENCED


def test_a_fence_and_new_work_in_one_step_give_the_fenced_worker_none():
    rig = Rig()
    call = rig.park("w1")
    rig.run([c.Enqueue("agents", (c.NewTask(CAPABILITY),)), c.Fence("op", ("w1",))])
    assert rig.got(call) == []
    assert rig.stats().ready == 1


def test_a_fence_covers_every_incarnation():
    rig = Rig()
    rig.submit()
    rig.beat("w1", incarnation="1")
    granted = rig.lease_one("w1", incarnation="2")
    assert fence(rig)[0].outcome is FenceOutcome.BUSY
    rig.ack(granted)
    assert fence(rig)[0].outcome is FenceOutcome.FENCED
    rig.submit()
    for incarnation in ("1", "2", "3"):
        assert rig.lease("w1", incarnation=incarnation) == []


def test_a_pod_never_seen_is_fenced_and_binds_what_registers_later():
    rig = Rig()
    assert fence(rig, "later")[0].outcome is FenceOutcome.FENCED
    rig.submit()
    assert rig.lease("later") == []
    assert rig.worker("later").state is WorkerState.FENCED


def test_the_same_operation_renews_and_another_is_told_whose_it_is():
    rig = Rig()
    fence(rig, ttl=100)
    rig.wait(60)
    assert fence(rig, ttl=100)[0].outcome is FenceOutcome.FENCED
    (other,) = fence(rig, operation="rival")
    assert (other.outcome, other.operation) == (FenceOutcome.OTHER_OPERATION, "op")
    rig.wait(99)
    rig.submit()
    assert rig.lease("w1") == []


def test_a_fence_ends_with_its_time_limit():
    rig = Rig()
    fence(rig, "w1", ttl=100)
    fence(rig, "w2", ttl=200)
    rig.submit()
    rig.wait(100)
    assert len(rig.lease("w1")) == 1
    assert [known.pod_uid for known in rig.core.fence_stats(rig.now)] == ["w2"]
    rig.wait(100)
    assert rig.core.fence_stats(rig.now) == []


def test_lifting_needs_the_operation_or_none():
    rig = Rig()
    fence(rig)
    assert rig.do(c.Unfence(("w1",), "rival")) == [False]
    assert rig.do(c.Unfence(("w1", "w2"), "op")) == [True, False]
    fence(rig)
    assert rig.do(c.Unfence(("w1",))) == [True]
    rig.submit()
    assert len(rig.lease("w1")) == 1


def test_a_fence_outlives_a_restart():
    rig = Rig()
    fence(rig, ttl=100)
    rig.restart(seconds=50)
    rig.submit()
    assert rig.lease("w1") == []
    rig.wait(50)
    assert len(rig.lease("w1")) == 1


def test_a_lifted_fence_stays_lifted_after_a_restart():
    rig = Rig()
    fence(rig)
    rig.do(c.Unfence(("w1",)))
    rig.restart()
    assert rig.core.fence_stats(rig.now) == []


def test_a_lease_known_only_from_before_a_restart_makes_its_pod_busy():
    rig = Rig()
    rig.submit()
    rig.lease_one("w1")
    rig.restart()
    assert fence(rig)[0].outcome is FenceOutcome.BUSY


def test_a_late_ack_after_the_fence_still_counts():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1")
    rig.wait(30)
    assert fence(rig)[0].outcome is FenceOutcome.FENCED
    assert rig.ack(granted).late


def test_fencing_is_an_edge_and_so_is_lifting():
    rig = Rig()
    rig.beat("w1")
    rig.core.take_changed()
    for command in (c.Fence("op", ("w1",)), c.Unfence(("w1",))):
        rig.do(command)
        changed = rig.core.take_changed()
        assert changed.urgent
        assert changed.fences
        assert ("agents", "w1", "1") in changed.workers
