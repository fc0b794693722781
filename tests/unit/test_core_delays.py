"""Delay and ttl: work that comes later, and work that comes too late."""

from core_rig import CAPABILITY, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.settings import Settings


def test_a_delayed_task_is_leased_by_nobody_before_it_is_due():
    rig = Rig()
    call = rig.park(wait=600.0)
    task = rig.submit(delay_seconds=60)
    assert task.state is TaskState.DELAYED
    rig.wait(59.9)
    assert rig.got(call) is None
    rig.wait(0.1)
    assert rig.got(call) == [task.id]


def test_becoming_due_writes_nothing():
    rig = Rig()
    rig.submit(delay_seconds=60)
    rig.wait(59)
    before = rig.commits
    rig.wait(2)
    assert rig.stats().ready == 1
    assert rig.commits == before


def test_a_delay_outlives_a_restart():
    rig = Rig()
    rig.submit(delay_seconds=60)
    rig.restart(seconds=30)
    assert rig.stats().delayed == 1
    rig.wait(30)
    assert rig.stats().ready == 1


def test_a_delay_that_ended_while_the_broker_was_away_is_over():
    rig = Rig()
    rig.submit(delay_seconds=60)
    rig.restart(seconds=90)
    assert rig.stats().ready == 1


def test_a_queued_task_expires_when_its_ttl_is_over():
    rig = Rig()
    task = rig.submit(ttl_seconds=60)
    rig.wait(60)
    record = rig.record(task.id)
    assert (record.ended.state, record.reason) == (TaskState.EXPIRED, "Expired")
    assert rig.lease() == []
    assert rig.stats().ready == 0


def test_a_delayed_task_expires_too():
    rig = Rig()
    task = rig.submit(ttl_seconds=60, delay_seconds=3600)
    rig.wait(60)
    assert rig.record(task.id).ended.state is TaskState.EXPIRED
    assert rig.stats().delayed == 0


def test_a_leased_task_is_not_stopped_by_its_ttl():
    rig = Rig()
    task = rig.submit(ttl_seconds=5)
    granted = rig.lease_one()
    rig.wait(20)
    assert rig.ack(granted).state is TaskState.COMPLETED
    assert rig.record(task.id).ended.state is TaskState.COMPLETED


def test_a_task_that_comes_back_after_its_ttl_expires():
    rig = Rig()
    task = rig.submit(ttl_seconds=5)
    granted = rig.lease_one()
    rig.wait(20)
    assert rig.nack(granted).state is TaskState.EXPIRED
    assert rig.record(task.id).ended.state is TaskState.EXPIRED


def test_a_task_that_comes_back_before_its_ttl_still_expires_later():
    rig = Rig()
    task = rig.submit(ttl_seconds=60)
    rig.wait(10)
    rig.release(rig.lease_one())
    rig.wait(50)
    assert rig.record(task.id).ended.state is TaskState.EXPIRED


def test_a_ttl_is_checked_at_the_lease_even_when_the_timers_are_behind():
    rig = Rig()
    expired = rig.submit(3, ttl_seconds=60)
    kept = rig.submit()
    rig.freeze(60)
    call = rig.call("w1", slots=4)
    rig.do(call)
    assert [lease.task_id for lease in rig.answers[call.call].leases] == [kept.id]
    assert all(rig.record(task.id).ended.state is TaskState.EXPIRED for task in expired)


def test_what_a_step_has_no_time_to_end_is_not_leased_either():
    rig = Rig(settings=Settings(reclaim_jitter=0.0, backoff_jitter=0.0, timers_per_step=2))
    expired = rig.submit(7, ttl_seconds=60)
    kept = rig.submit()
    rig.freeze(60)
    call = rig.park("w1", slots=8)
    while call not in rig.answers:
        rig.run()
    assert rig.got(call) == [kept.id]
    while rig.core.next_deadline() <= rig.now:
        rig.run()
    assert all(rig.record(task.id).ended.state is TaskState.EXPIRED for task in expired)


def test_each_of_several_delayed_tasks_comes_when_it_is_due_though_nothing_else_happens():
    rig = Rig()
    began = rig.now
    due = {rig.submit(delay_seconds=seconds).id: began + seconds for seconds in (10, 12, 12, 19, 45, 300)}
    came = {}
    while len(came) < len(due) and rig.now < began + 400:
        for task in due.keys() - came.keys():
            if rig.row(task).state is TaskState.READY and rig.stats().ready > len(came):
                came[task] = rig.now
        rig.wait(1)
    assert came == due


def test_a_ttl_that_ended_while_the_broker_was_away_ends_the_task():
    rig = Rig()
    task = rig.submit(ttl_seconds=60)
    rig.restart(seconds=90)
    rig.run()
    assert rig.record(task.id).ended.state is TaskState.EXPIRED


def test_a_million_waiting_retries_are_not_looked_at_to_find_the_next_task():
    """The cost of a pick does not grow with what is delayed: only the ready one is touched."""
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=10_000_000))
    rig.submit(20_000, delay_seconds=3600)
    task = rig.submit()
    looked_at = []
    tasks = rig.core.state.tasks

    class Watched(dict):
        def get(self, seq, default=None):
            looked_at.append(seq)
            return tasks.get(seq, default)

        def __getitem__(self, seq):
            looked_at.append(seq)
            return tasks[seq]

    rig.core.state.tasks = Watched()
    call = rig.call("w1")
    rig.do(call)
    rig.core.state.tasks = tasks
    assert rig.got(call.call) == [task.id]
    assert len(looked_at) < 20
