"""Pause and resume: nothing of a capability is leased, whatever else happens, until a person says so."""

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.leases import LeaseStatus
from leadsman_broker.core import commands as c


def pause(rig, capability=CAPABILITY, reason=""):
    return rig.do(c.Pause(NAMESPACE, capability, reason))


def resume(rig, capability=CAPABILITY):
    return rig.do(c.Resume(NAMESPACE, capability))


def two_queues():
    return Rig(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="llm"))


def test_a_paused_capability_takes_work_and_gives_none():
    rig = Rig()
    assert pause(rig).changed
    assert rig.submit().id
    assert rig.lease() == []
    stats = rig.stats()
    assert (stats.paused, stats.ready, stats.waiting, stats.leasable) == (True, 1, 0, 0)
    assert stats.blocked == {"CapabilityPaused": 1}
    assert stats.oldest_age_seconds is None


def test_what_is_leased_goes_on():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    pause(rig)
    for _ in range(5):
        rig.wait(20)
        assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK
    assert rig.ack(granted).ok


def test_a_failed_or_lost_task_waits_for_the_resume():
    rig = Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0))
    rig.submit(2)
    failed, _lost = rig.lease("w1", slots=2)
    pause(rig)
    rig.nack(failed)
    rig.wait(31)
    assert rig.lease("w2", slots=2) == []
    resume(rig)
    assert len(rig.lease("w2", slots=2)) == 2


def test_parked_calls_wake_at_the_resume():
    rig = Rig()
    pause(rig)
    call = rig.park("w1")
    task = rig.submit()
    assert rig.got(call) is None
    resume(rig)
    assert rig.got(call) == [task.id]


def test_a_worker_of_two_capabilities_gets_the_other_one():
    rig = two_queues()
    rig.submit()
    pause(rig)
    call = rig.park("w1", CAPABILITY, "llm")
    other = rig.submit(capability="llm")
    assert rig.got(call) == [other.id]


def test_a_pause_outlives_a_restart_and_every_push_of_the_configuration():
    rig = two_queues()
    pause(rig, reason="provider down")
    rig.submit()
    rig.restart()
    assert rig.lease() == []
    rig.configure(CapabilityConfig(name=CAPABILITY, max_attempts=9))
    rig.configure(CapabilityConfig(name="llm"))
    rig.configure(CapabilityConfig(name=CAPABILITY))
    assert rig.lease() == []
    assert pause(rig).pause.reason == "provider down"
    resume(rig)
    rig.restart()
    assert len(rig.lease()) == 1


def test_a_capability_that_went_and_came_back_is_still_paused():
    rig = two_queues()
    pause(rig)
    rig.configure(CapabilityConfig(name="llm"))
    assert (NAMESPACE, CAPABILITY) not in rig.core.state.queues
    rig.restart()
    rig.configure(CapabilityConfig(name=CAPABILITY))
    rig.submit()
    assert rig.lease() == []


def test_repeating_changes_nothing_and_says_so():
    rig = Rig()
    first = pause(rig, reason="why")
    rig.wait(10)
    again = pause(rig, reason="another")
    assert (again.changed, again.pause) == (False, first.pause)
    assert not rig.last.changes
    assert resume(rig).changed
    assert not resume(rig).changed


def test_an_unknown_capability_is_not_paused():
    rig = Rig()
    assert not pause(rig, "typo").known
    assert not resume(rig, "typo").known
    assert not rig.last.changes


@pytest.mark.parametrize("then", [Rig.wait, Rig.restart])
def test_the_age_of_what_waited_begins_at_the_resume(then):
    rig = Rig()
    rig.submit()
    pause(rig)
    rig.wait(1000)
    resume(rig)
    then(rig, 7.0)
    assert rig.stats().oldest_age_seconds == 7


def test_when_a_queue_was_resumed_is_forgotten_with_the_queue():
    rig = Rig()
    pause(rig)
    resume(rig)
    assert len(rig.tables.openings) == 1
    rig.configure(CapabilityConfig(name="other"))
    assert rig.tables.openings == {}


def test_a_ttl_runs_out_in_a_paused_queue_too():
    rig = Rig()
    task = rig.submit(ttl_seconds=60)
    pause(rig)
    rig.wait(61)
    assert rig.record(task.id).reason == "Expired"


def test_pausing_is_an_edge_and_so_is_resuming():
    rig = Rig()
    for act in (pause, resume):
        rig.core.take_changed()
        act(rig)
        changed = rig.core.take_changed()
        assert changed.urgent
        assert (NAMESPACE, CAPABILITY) in changed.queues
