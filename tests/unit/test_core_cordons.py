"""Cordons: a pod's workers keep what they hold and get nothing new."""

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.leases import LeaseStatus, WorkerState
from leadsman.wire.workers import CordonOutcome, FenceOutcome
from leadsman_broker.core import commands as c


def cordon(rig, *pods, operation="op", ttl=300.0, drain=False):
    return rig.do(c.Cordon(operation, pods or ("w1",), ttl, drain))


def test_a_cordoned_worker_keeps_its_leases_and_gets_no_more():
    rig = Rig()
    rig.submit(3)
    granted = rig.lease_one("w1", slots=2, free=1)
    (result,) = cordon(rig)
    assert (result.outcome, result.leases, result.operation) == (CordonOutcome.CORDONED, 1, "op")
    assert rig.lease("w1", slots=2, free=1, held=[granted.token]) == []
    for _ in range(5):
        rig.wait(20)
        beat = rig.beat("w1", granted.token, slots=2)
        assert (beat.worker, beat.leases[0].status) == (WorkerState.CORDONED, LeaseStatus.OK)
    assert rig.ack(granted).ok
    assert rig.lease("w1", slots=2) == []
    assert (rig.worker("w1").state, rig.worker("w1").operation) == (WorkerState.CORDONED, "op")


def test_a_cordon_ends_the_parked_call_empty_and_tells_the_worker():
    rig = Rig()
    call = rig.park("w1")
    cordon(rig)
    assert rig.got(call) == []
    assert rig.answers[call].worker is WorkerState.CORDONED


def test_a_cordon_and_new_work_in_one_step_give_the_cordoned_worker_none():
    rig = Rig()
    call = rig.park("w1")
    rig.run([c.Enqueue(NAMESPACE, (c.NewTask(CAPABILITY),)), c.Cordon("op", ("w1",))])
    assert rig.got(call) == []
    assert rig.stats().ready == 1


def test_a_repeated_lease_call_of_a_cordoned_worker_still_brings_what_was_given():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1", attempt="lost-reply")
    cordon(rig)
    assert [lease.token for lease in rig.lease("w1", attempt="lost-reply")] == [granted.token]


def test_a_pod_never_seen_is_cordoned_and_binds_every_incarnation_that_comes():
    rig = Rig()
    cordon(rig, "later")
    rig.submit()
    for incarnation in ("1", "2"):
        assert rig.lease("later", incarnation=incarnation) == []
        assert rig.worker("later", incarnation).state is WorkerState.CORDONED


def test_the_same_operation_renews_and_another_is_told_whose_it_is():
    rig = Rig()
    rig.submit()
    cordon(rig, ttl=100)
    rig.wait(60)
    cordon(rig, ttl=100)
    (other,) = cordon(rig, operation="rival")
    assert (other.outcome, other.operation) == (CordonOutcome.OTHER_OPERATION, "op")
    rig.wait(99)
    assert rig.lease("w1") == []
    rig.wait(1)
    assert len(rig.lease("w1")) == 1
    assert rig.core.cordon_stats(rig.now) == []


def test_lifting_needs_the_operation_or_none():
    rig = Rig()
    cordon(rig)
    assert rig.do(c.Uncordon(("w1",), "rival")) == [False]
    assert rig.do(c.Uncordon(("w1", "w2"), "op")) == [True, False]
    cordon(rig)
    assert rig.do(c.Uncordon(("w1",))) == [True]
    rig.submit()
    assert len(rig.lease("w1")) == 1


def test_a_cordoned_worker_is_fenced_once_it_is_empty_and_either_is_lifted_alone():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1")
    cordon(rig)
    assert rig.do(c.Fence("op", ("w1",)))[0].outcome is FenceOutcome.BUSY
    rig.ack(granted)
    assert rig.do(c.Fence("op", ("w1",)))[0].outcome is FenceOutcome.FENCED
    assert rig.worker("w1").state is WorkerState.FENCED
    rig.do(c.Unfence(("w1",)))
    assert rig.worker("w1").state is WorkerState.CORDONED
    rig.submit()
    assert rig.lease("w1") == []
    rig.do(c.Uncordon(("w1",)))
    assert len(rig.lease("w1")) == 1


def test_a_cordon_and_its_end_outlive_a_restart():
    rig = Rig()
    cordon(rig, "w1", ttl=100)
    cordon(rig, "w2")
    rig.do(c.Uncordon(("w2",)))
    rig.restart(seconds=50)
    rig.submit(2)
    assert rig.lease("w1") == []
    assert len(rig.lease("w2")) == 1
    rig.wait(50)
    assert len(rig.lease("w1")) == 1


def test_a_drain_is_told_to_those_who_run_and_not_to_those_who_start_later():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1")
    cordon(rig, drain=True)
    assert rig.beat("w1", granted.token).worker is WorkerState.DRAIN
    assert rig.beat("w1", granted.token, draining=True).worker is WorkerState.DRAINING
    assert rig.release(granted).ok
    assert rig.beat("w1", incarnation="2").worker is WorkerState.CORDONED
    cordon(rig, drain=True)  # renewed: nobody is asked anew
    assert rig.beat("w1", incarnation="2").worker is WorkerState.CORDONED


def test_a_busy_worker_is_asked_to_drain_also_by_the_broker_that_comes_after_a_restart():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1")
    cordon(rig, drain=True)
    rig.restart()
    assert rig.beat("w1", granted.token).worker is WorkerState.DRAIN


@pytest.mark.parametrize("command", [c.Cordon("op", ("w1",)), c.Uncordon(("w1",))])
def test_a_cordon_and_its_end_are_edges(command):
    rig = Rig()
    rig.beat("w1")
    if isinstance(command, c.Uncordon):
        cordon(rig)
    rig.core.take_changed()
    rig.do(command)
    changed = rig.core.take_changed()
    assert changed.urgent
    assert changed.fences
    assert ("agents", "w1", "1") in changed.workers
