"""Leases: tokens, renewal, loss."""

import pytest

from core_rig import CAPABILITY, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.leases import LeaseStatus
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.settings import Settings


def test_a_leased_task_is_hidden_from_everyone_else():
    rig = Rig()
    rig.submit()
    rig.lease_one("w1")
    assert rig.lease("w2") == []


def test_every_delivery_has_a_new_token():
    rig = Rig()
    rig.submit()
    first = rig.lease_one("w1")
    rig.release(first)
    second = rig.lease_one("w1")
    assert first.task_id == second.task_id
    assert (first.epoch, second.epoch) == (1, 2)
    assert first.token != second.token


def test_a_renewed_lease_outlives_many_lease_times():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    for _ in range(400):
        rig.wait(10)
        assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK
    assert rig.lease("w2") == []
    assert rig.ack(granted).ok


def test_two_lost_heartbeats_in_a_row_do_not_lose_the_task():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    rig.wait(29)
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK
    rig.wait(29)
    assert rig.lease("w2") == []


def test_a_lease_that_is_not_renewed_goes_to_another_worker():
    rig = Rig()
    task = rig.submit()
    lost = rig.lease_one("w1")
    rig.wait(30)
    again = rig.lease_one("w2")
    assert again.task_id == task.id
    assert again.attempt == 2
    assert rig.beat("w1", lost.token).leases[0].status is LeaseStatus.LEASE_LOST


@pytest.mark.parametrize("seed", range(20))
def test_a_lease_is_never_reclaimed_before_its_expiry_and_at_most_a_fifth_of_it_later(seed):
    rig = Rig(settings=Settings(), seed=seed)
    task = rig.submit()
    granted = rig.lease_one()
    expiry = granted.expires_at
    while rig.row(task.id).lease is not None:
        rig.wait(0.25)
    assert expiry <= rig.now <= expiry + 0.2 * 30 + 0.25


def test_leases_lost_together_do_not_come_back_together():
    rig = Rig(settings=Settings())
    tasks = rig.submit(200)
    rig.lease("w1", slots=200)
    back = []
    for _ in range(8):
        rig.wait(1)
        back.append(sum(rig.row(task.id).lease is None for task in tasks))
    rig.wait(24)
    moments = []
    before = sum(rig.row(task.id).lease is None for task in tasks)
    for _ in range(6):
        rig.wait(1)
        after = sum(rig.row(task.id).lease is None for task in tasks)
        moments.append(after - before)
        before = after
    assert back[-1] == 0
    assert sum(moments) + rig.stats().ready >= 200
    assert all(count > 10 for count in moments[:4])


def test_a_heartbeat_that_has_arrived_counts_before_the_expiry_of_the_same_moment():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    rig.freeze(7)
    rig.beat("w1", granted.token)
    rig.freeze(7)
    rig.beat("w1", granted.token)
    rig.wait(29.9)
    rig.freeze(0.1)
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK


def test_a_heartbeat_writes_nothing():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    before = rig.commits
    rig.wait(5)
    rig.beat("w1", granted.token)
    assert not rig.last.changes
    assert rig.commits == before


def test_a_heartbeat_with_a_checkpoint_writes_it_and_the_next_attempt_gets_it():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    rig.beat("w1", granted.token, checkpoints={granted.token: b'{"page":3}'})
    assert rig.last.changes.checkpoints
    rig.wait(30)
    rig.lease_one("w2")
    assert rig.store.deliveries([task.id])[task.id].checkpoint == b'{"page":3}'


def test_the_next_attempt_gets_the_last_checkpoint_not_the_first():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    for page in range(3):
        rig.beat("w1", granted.token, checkpoints={granted.token: b"%d" % page})
    rig.nack(granted, checkpoint=b"3")
    assert rig.store.deliveries([task.id])[task.id].checkpoint == b"3"
    rig.wait(60)
    rig.release(rig.lease_one("w2"), checkpoint=b"4")
    assert rig.store.deliveries([task.id])[task.id].checkpoint == b"4"


def test_only_its_own_worker_can_renew_a_lease():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1")
    assert rig.beat("w2", granted.token).leases[0].status is LeaseStatus.LEASE_LOST
    assert rig.beat("w1", granted.token, incarnation="2").leases[0].status is LeaseStatus.LEASE_LOST
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK


@pytest.mark.parametrize("token", ["", "x", "a:b:c", "0" * 20, "0" * 20 + ":1:", "0" * 20 + ":²:x", "é:1:x"])
def test_a_token_that_is_none_of_ours_is_a_lost_lease_to_a_heartbeat(token):
    rig = Rig()
    assert rig.beat("w1", token).leases[0].status is LeaseStatus.LEASE_LOST


def test_an_attempt_ends_at_its_timeout_however_well_it_is_renewed():
    rig = Rig(CapabilityConfig(name=CAPABILITY, attempt_timeout_seconds=100))
    task = rig.submit()
    granted = rig.lease_one()
    assert granted.attempt_timeout_seconds == 100
    for _ in range(9):
        rig.wait(10)
        assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.OK
    rig.wait(9)
    assert rig.beat("w1", granted.token).leases[0].expires_at == granted.expires_at - 30 + 100
    rig.freeze(1)
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.LEASE_LOST
    assert rig.record(task.id).history[-1].detail == "attempt timeout"


def test_a_shortened_lease_takes_hold_at_the_next_heartbeat():
    rig = Rig(CapabilityConfig(name=CAPABILITY, lease_seconds=3000))
    task = rig.submit()
    granted = rig.lease_one()
    rig.configure(CapabilityConfig(name=CAPABILITY, lease_seconds=10))
    rig.wait(20)
    assert rig.row(task.id).lease is not None
    rig.beat("w1", granted.token)
    rig.wait(10)
    assert rig.row(task.id).state is TaskState.READY


def test_an_undelivered_lease_is_given_back_after_two_lists_without_it_and_costs_nothing():
    rig = Rig()
    task = rig.submit()
    rig.lease_one("w1")
    rig.wait(5)
    rig.beat("w1")
    assert rig.row(task.id).lease is not None
    rig.beat("w1")
    row = rig.row(task.id)
    assert row.state is TaskState.READY
    assert (row.failures, row.reclaims, row.releases) == (0, 0, 0)
    assert rig.events(task.id) == ["undelivered"]
    assert rig.lease_one("w2").attempt == 1


def test_lease_calls_and_heartbeats_count_as_lists_alike():
    rig = Rig()
    task = rig.submit()
    rig.lease_one("w1", slots=2)
    rig.wait(5)
    rig.beat("w1", slots=2)
    (again,) = rig.lease("w1", slots=2, free=2)
    assert (again.task_id, again.epoch, again.attempt) == (task.id, 2, 1)


def test_a_lease_that_is_listed_again_in_between_is_kept():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one("w1")
    rig.wait(5)
    for _ in range(3):
        rig.beat("w1")
        rig.beat("w1", granted.token)
    assert rig.row(task.id).lease is not None


def test_lists_made_while_the_reply_is_under_way_are_no_evidence():
    rig = Rig()
    task = rig.submit()
    rig.lease_one("w1")
    for _ in range(5):
        rig.wait(0.3)
        rig.beat("w1")
    assert rig.row(task.id).lease is not None


def test_one_crash_of_many_leases_does_not_hold_up_the_others():
    rig = Rig(settings=Settings(reclaim_jitter=0.0, timers_per_step=50))
    rig.submit(501)
    alive = rig.lease_one("alive")
    rig.lease("dead", slots=500)
    rig.wait(29)
    rig.freeze(1)
    steps = 0
    while rig.stats().leased > 1:
        assert rig.beat("alive", alive.token).leases[0].status is LeaseStatus.OK
        steps += 1
    assert steps == 10
    assert rig.stats().ready == 500
