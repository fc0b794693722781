"""The capabilities of a namespace."""

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c


def test_the_full_set_is_in_force():
    rig = Rig(CapabilityConfig(name="a"), CapabilityConfig(name="b", lease_seconds=7))
    rig.submit(1, "b")
    assert rig.lease_one("w1", "b").lease_seconds == 7
    row = rig.core.capabilities(NAMESPACE)
    assert (row.generation, [rules.name for rules in row.capabilities]) == (1, ["a", "b"])
    assert rig.core.capabilities("nowhere").capabilities == ()


def test_heartbeats_are_a_third_of_the_lease_unless_said_otherwise():
    rig = Rig(CapabilityConfig(name="a"), CapabilityConfig(name="b", heartbeat_seconds=3))
    rig.submit(1, "a")
    rig.submit(1, "b")
    assert [lease.heartbeat_seconds for lease in rig.lease("w1", "a", "b", slots=2)] == [10, 3]


def test_an_older_generation_changes_nothing():
    rig = Rig()
    rig.configure(CapabilityConfig(name="new"))
    answer = rig.do(c.Configure(NAMESPACE, 1, (CapabilityConfig(name="old"),)))
    assert (answer.applied, answer.generation) == (False, 2)
    assert rig.core.queue_keys() == [(NAMESPACE, "new")]


def test_the_same_set_again_writes_nothing():
    rig = Rig()
    answer = rig.do(c.Configure(NAMESPACE, rig.generation, (CapabilityConfig(name=CAPABILITY),)))
    assert answer.applied
    assert not rig.last.changes


def test_one_namespace_does_not_touch_another():
    rig = Rig()
    rig.configure(CapabilityConfig(name="x"), namespace="other")
    rig.configure()
    assert rig.core.queue_keys() == [("other", "x")]


def test_a_queue_with_tasks_is_kept_takes_no_new_work_and_is_worked_off():
    rig = Rig()
    task = rig.submit()
    answer = rig.configure()
    assert answer.retained == (CAPABILITY,)
    assert rig.submit().code == "unknown_capability"
    assert not rig.stats().configured
    granted = rig.lease_one()
    assert granted.task_id == task.id
    rig.ack(granted)
    assert rig.core.queue_keys() == []
    assert (NAMESPACE, CAPABILITY) in rig.core.take_changed().queues


def test_a_queue_with_only_dead_tasks_is_kept_until_they_go():
    rig = Rig(CapabilityConfig(name=CAPABILITY, dead_retention_seconds=100))
    task = rig.submit()
    rig.nack(rig.lease_one(), retry=False)
    assert rig.configure().retained == (CAPABILITY,)
    assert rig.do(c.Redrive(NAMESPACE, CAPABILITY, (task.id,)))[0].code == "unknown_capability"
    rig.wait(131)
    assert rig.core.queue_keys() == []


def test_a_kept_queue_comes_back_into_service_when_it_is_listed_again():
    rig = Rig()
    rig.submit()
    rig.configure()
    rig.configure(CapabilityConfig(name=CAPABILITY, lease_seconds=99))
    assert rig.stats().configured
    assert rig.lease_one().lease_seconds == 99


def test_rules_and_generation_outlive_a_restart_for_listed_and_kept_queues():
    rig = Rig(CapabilityConfig(name="kept", lease_seconds=11), CapabilityConfig(name="empty"))
    rig.submit(1, "kept")
    rig.configure(CapabilityConfig(name="listed", max_attempts=9))
    rig.restart()
    assert sorted(rig.core.queue_keys()) == [(NAMESPACE, "kept"), (NAMESPACE, "listed")]
    assert rig.lease_one("w1", "kept").lease_seconds == 11
    rig.submit(1, "listed")
    assert rig.lease_one("w2", "listed").max_attempts == 9
    assert rig.do(c.Configure(NAMESPACE, 1, ())).applied is False


def test_a_kept_queue_that_is_empty_at_a_restart_is_gone():
    rig = Rig()
    rig.submit()
    rig.configure()
    rig.ack(rig.lease_one())
    rig.restart()
    assert rig.core.queue_keys() == []


def test_a_longer_start_up_time_counts_more_of_the_delayed_tasks():
    rig = Rig(CapabilityConfig(name=CAPABILITY, startup_seconds=30))
    rig.submit(1, delay_seconds=20)
    rig.submit(1, delay_seconds=50)
    assert rig.stats().due_soon == 1
    rig.configure(CapabilityConfig(name=CAPABILITY, startup_seconds=60))
    assert rig.stats().due_soon == 2
    rig.configure(CapabilityConfig(name=CAPABILITY, startup_seconds=10))
    assert rig.stats().due_soon == 0
    rig.wait(10)
    assert rig.stats().due_soon == 1
