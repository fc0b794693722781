"""Progress is not liveness: a lease is renewed only while its attempt shows that it gets on."""

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.leases import LeaseStatus
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c


def gated(**fields):
    rules = {"lease_seconds": 30, "progress_timeout_seconds": 100, "backoff_seconds": 0, **fields}
    return Rig(CapabilityConfig(name=CAPABILITY, **rules))


def beat_for(rig, granted, seconds, progress=None, every=10.0):
    """Send heartbeats for a while; return the statuses. `progress` gives the number for each."""
    statuses = []
    for number in range(int(seconds / every)):
        rig.wait(every)
        said = {} if progress is None else {granted.token: progress(number)}
        statuses.append(rig.beat("w1", granted.token, progress=said).leases[0].status)
    return statuses


def test_a_hung_handler_does_not_hold_its_task_for_ever():
    rig = gated()
    task = rig.submit()
    granted = rig.lease_one()
    statuses = beat_for(rig, granted, 110)
    assert statuses == [LeaseStatus.OK] * 9 + [LeaseStatus.NO_PROGRESS] * 2
    rig.wait(10)
    assert rig.row(task.id).state is TaskState.READY
    assert rig.events(task.id) == ["no_progress", "reclaimed"]
    assert rig.stats().no_progress_total == 1
    assert rig.core.totals(("agents", CAPABILITY)).no_progress == 1


def test_a_cancelled_task_that_hangs_is_told_of_the_cancel_and_is_still_not_renewed():
    rig = gated()
    task = rig.submit()
    granted = rig.lease_one()
    beat_for(rig, granted, 90)
    rig.do(c.Cancel(NAMESPACE, task.id))
    assert set(beat_for(rig, granted, 20)) == {LeaseStatus.CANCELLED}
    rig.wait(30)
    assert rig.record(task.id).ended.state is TaskState.CANCELLED
    assert rig.events(task.id) == ["cancel_requested", "no_progress", "reclaimed", "cancelled"]


def test_a_handler_that_says_the_same_for_ever_is_no_better():
    rig = gated()
    rig.submit()
    granted = rig.lease_one()
    statuses = beat_for(rig, granted, 120, progress=lambda _: 7)
    assert statuses.index(LeaseStatus.NO_PROGRESS) == 10  # 100 s after it first said 7


def test_a_number_that_falls_is_no_progress():
    rig = gated()
    rig.submit()
    granted = rig.lease_one()
    assert LeaseStatus.NO_PROGRESS in beat_for(rig, granted, 120, progress=lambda number: 50 - number)


def test_a_four_hour_task_that_gets_on_is_never_given_to_another():
    rig = gated()
    task = rig.submit()
    granted = rig.lease_one()
    statuses = beat_for(rig, granted, 4 * 3600, progress=lambda number: number // 9)
    assert set(statuses) == {LeaseStatus.OK}
    assert rig.row(task.id).epoch == 1
    assert rig.ack(granted).ok


def test_a_checkpoint_is_progress_too():
    rig = gated()
    rig.submit()
    granted = rig.lease_one()
    for _ in range(5):
        assert beat_for(rig, granted, 90) == [LeaseStatus.OK] * 9
        rig.beat("w1", granted.token, checkpoints={granted.token: b"1"})


def test_without_a_limit_nothing_need_be_shown():
    rig = Rig()
    rig.submit()
    assert set(beat_for(rig, rig.lease_one(), 3600)) == {LeaseStatus.OK}


def test_an_attempt_that_is_refused_may_still_fail_or_give_back_its_task_in_good_order():
    rig = gated()
    task = rig.submit()
    granted = rig.lease_one()
    beat_for(rig, granted, 100)
    assert rig.nack(granted, error_type="NoProgress", checkpoint=b"3").ok
    assert rig.record(task.id).live.standing.failures == 1
    assert rig.store.deliveries([task.id])[task.id].checkpoint == b"3"


def test_progress_after_a_refusal_but_before_the_end_of_the_lease_renews_it():
    rig = gated()
    rig.submit()
    granted = rig.lease_one()
    assert beat_for(rig, granted, 100)[-1] is LeaseStatus.NO_PROGRESS
    assert beat_for(rig, granted, 10, progress=lambda _: 1) == [LeaseStatus.OK]
    assert set(beat_for(rig, granted, 90)) == {LeaseStatus.OK}


def test_a_task_lost_for_want_of_progress_says_nothing_of_its_worker():
    rig = gated()
    rig.submit(2)
    stuck, other = rig.lease("w1", slots=2)
    rig.wait(10)
    for number in range(9):
        rig.beat("w1", stuck.token, other.token, slots=2, progress={other.token: number})
        rig.wait(10)
    reply = rig.beat("w1", stuck.token, other.token, slots=2, progress={other.token: 99})
    assert [each.status for each in reply.leases] == [LeaseStatus.NO_PROGRESS, LeaseStatus.OK]
    rig.wait(20)
    row = rig.row(stuck.task_id)
    assert (row.reclaims, row.poison, row.suspect) == (1, 1, False)
    assert rig.row(other.task_id).epoch == 1


def test_a_task_that_hangs_every_time_ends_in_the_dead_letter_queue():
    rig = gated(max_reclaims=3)
    task = rig.submit()
    for _ in range(3):
        beat_for(rig, rig.lease_one(), 120)
        rig.wait(10)
    ending = rig.record(task.id)
    assert (ending.ended.state, ending.reason) == (TaskState.DEAD, "Poison")


def test_a_broker_that_stood_still_or_started_anew_blames_nobody():
    rig = gated()
    rig.submit()
    granted = rig.lease_one()
    beat_for(rig, granted, 90)
    rig.freeze(60)
    rig.run()
    assert beat_for(rig, granted, 90) == [LeaseStatus.OK] * 9
    rig.restart(60)
    assert beat_for(rig, granted, 90) == [LeaseStatus.OK] * 9
    assert LeaseStatus.NO_PROGRESS in beat_for(rig, granted, 30)


def test_the_attempt_timeout_ends_an_attempt_that_gets_on_all_the_same():
    rig = gated(attempt_timeout_seconds=200)
    task = rig.submit()
    granted = rig.lease_one()
    statuses = beat_for(rig, granted, 210, progress=lambda number: number)
    assert statuses[-2:] == [LeaseStatus.LEASE_LOST] * 2
    assert rig.row(task.id).reclaims == 1


def test_the_worker_is_told_the_limit():
    rig = gated()
    rig.submit()
    assert rig.lease_one().progress_timeout_seconds == 100
