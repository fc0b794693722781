"""A broker that stood still, or was restarted, does not punish the workers."""

import pytest

from core_rig import CAPABILITY, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.leases import LeaseStatus
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.settings import Settings


def test_a_stall_extends_every_lease_as_a_restart_does():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    rig.freeze(3600)
    rig.run()
    assert rig.row(task.id).lease is not None
    rig.wait(29)
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK


def test_a_lease_lost_in_a_stall_costs_neither_an_attempt_nor_evidence():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=1, max_reclaims=1))
    task = rig.submit()
    rig.lease_one("gone")
    rig.freeze(3600)
    rig.run()
    rig.wait(31)
    row = rig.row(task.id)
    assert row.state is TaskState.READY
    assert (row.reclaims, row.poison) == (0, 0)
    assert rig.core.totals(("agents", CAPABILITY)).reclaimed == 1


def test_a_worker_that_renews_after_a_stall_is_held_to_its_lease_again():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    rig.freeze(60)
    rig.beat("w1", granted.token)
    rig.wait(30)
    assert rig.row(task.id).reclaims == 1


def test_a_gap_below_a_quarter_of_the_lease_is_no_stall():
    rig = Rig()
    task = rig.submit()
    rig.lease_one()
    for _ in range(4):
        rig.freeze(7.5)
        rig.run()
    assert rig.row(task.id).reclaims == 1


def test_a_stall_is_measured_by_each_lease():
    rig = Rig(CapabilityConfig(name="quick", lease_seconds=4), CapabilityConfig(name="slow", lease_seconds=400))
    quick = rig.submit(1, "quick")
    slow = rig.submit(1, "slow")
    rig.lease_one("w1", "quick")
    rig.lease_one("w2", "slow")
    rig.freeze(10)
    rig.run()
    assert rig.row(quick.id).lease.stalled
    assert not rig.row(slow.id).lease.stalled


def test_an_idle_broker_with_leases_wakes_often_enough_not_to_look_stalled():
    rig = Rig()
    task = rig.submit()
    rig.lease_one()
    rig.wait(29.9)
    assert not rig.row(task.id).lease.stalled


def test_after_a_restart_a_live_worker_keeps_its_lease():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    rig.restart(seconds=600)
    assert rig.lease("w2") == []
    rig.wait(29)
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK
    assert rig.ack(granted).ok
    assert rig.record(task.id).ended.state is TaskState.COMPLETED


def test_after_a_restart_the_lease_of_a_dead_worker_is_reclaimed_within_a_lease():
    rig = Rig()
    task = rig.submit()
    rig.lease_one("dead")
    rig.restart(seconds=600)
    rig.wait(30)
    assert rig.lease_one("w2").task_id == task.id


def test_a_restart_does_not_extend_an_attempt_beyond_its_timeout():
    rig = Rig(CapabilityConfig(name=CAPABILITY, attempt_timeout_seconds=50))
    task = rig.submit()
    granted = rig.lease_one()
    rig.restart(seconds=40)
    rig.beat("w1", granted.token)
    rig.wait(10)
    assert rig.row(task.id).state is TaskState.READY


def restart(rig: Rig) -> None:
    rig.restart(seconds=40)


def stand_still(rig: Rig) -> None:
    rig.freeze(40)
    rig.run()


@pytest.mark.parametrize("away", [restart, stand_still])
def test_nor_does_either_give_a_silent_worker_more_than_its_timeout(away):
    rig = Rig(CapabilityConfig(name=CAPABILITY, attempt_timeout_seconds=50))
    task = rig.submit()
    rig.lease_one()
    away(rig)
    rig.wait(9)
    assert rig.row(task.id).state is TaskState.LEASED
    rig.wait(1)
    assert rig.row(task.id).state is TaskState.READY


@pytest.mark.parametrize("away", [restart, stand_still])
def test_what_dead_workers_held_does_not_come_back_as_one_wave_after_either(away):
    rig = Rig(settings=Settings())
    rig.submit(200)
    for number in range(20):
        rig.lease(f"dead{number}", slots=10)
    away(rig)
    rig.wait(29.9)
    assert rig.stats().leased == 200
    back = []
    for _ in range(6):
        before = rig.stats().leased
        rig.wait(1)
        back.append(before - rig.stats().leased)
    assert all(count > 10 for count in back[:5])
    rig.wait(0.2)
    assert rig.stats().leased == 0


def test_a_repeated_lease_call_gets_its_leases_after_a_restart():
    rig = Rig()
    rig.submit()
    command = rig.call(attempt="lost")
    rig.do(command)
    rig.restart()
    repeated = rig.call(attempt="lost")
    rig.do(repeated)
    assert [lease.token for lease in rig.answers[repeated.call].leases] == [
        lease.token for lease in rig.answers[command.call].leases
    ]


def test_the_brokers_time_never_goes_back():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    rig.now -= 3600
    rig.run()
    assert rig.beat("w1", granted.token).leases[0].expires_at >= granted.expires_at
    assert rig.row(task.id).lease is not None
    assert rig.store.load().last_at >= granted.expires_at - 30
