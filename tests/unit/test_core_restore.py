"""A core that starts from a backup: what was leased is ready again, and all of it may have run."""

from core_rig import CAPABILITY, NAMESPACE, Rig, check
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c


def restored(rig: Rig, seconds: float = 3600.0) -> None:
    """Start again from the tables as a restored backup leaves them."""
    rig.tables.restoring, rig.tables.restored_below = True, rig.tables.next_seq
    rig.restart(seconds)
    rig.run()
    check(rig.core)


def test_every_lease_is_ready_again_and_no_attempt_is_spent():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_reclaims=1))
    held, ready = rig.submit(), rig.submit()
    rig.lease_one()

    restored(rig)

    assert [rig.record(task.id).state_at(rig.now) for task in (held, ready)] == [TaskState.READY] * 2
    assert rig.events(held.id) == ["restored"]
    first, second = rig.lease("w2", slots=2)
    assert (first.task_id, first.epoch, first.attempt) == (held.id, 2, 1)
    assert second.task_id == ready.id
    check(rig.core)


def test_what_comes_from_the_backup_may_have_run_and_what_is_new_has_not():
    rig = Rig()
    rig.submit(2)
    rig.lease_one()

    restored(rig)
    rig.submit()

    assert [lease.maybe_ran for lease in rig.lease("w2", slots=3)] == [True, True, False]
    rig.restart()
    rig.wait(400.0)
    assert [lease.maybe_ran for lease in rig.lease("w3", slots=3)] == [True, True, False]


def test_a_dead_task_of_the_backup_may_have_run_when_it_is_redriven():
    rig = Rig()
    task = rig.submit()
    rig.nack(rig.lease_one(), retry=False)

    restored(rig)
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, (task.id,)))

    assert rig.lease_one("w2").maybe_ran


def test_a_cancel_that_waited_for_its_worker_is_final():
    rig = Rig()
    task = rig.submit()
    rig.lease_one()
    rig.do(c.Cancel(NAMESPACE, task.id))

    restored(rig)

    assert rig.record(task.id).state_at(rig.now) is TaskState.CANCELLED


def test_a_worker_that_still_runs_completes_its_task_as_long_as_nobody_else_has_it():
    rig = Rig()
    rig.submit(2)
    one, two = rig.lease(slots=2)

    restored(rig)
    rig.lease_one("w2")

    assert rig.ack(one).code == "lease_lost"
    assert (rig.ack(two).ok, rig.ack(two).late) == (True, True)


def test_leases_are_let_go_of_once():
    rig = Rig()
    rig.submit()
    rig.lease_one()
    restored(rig)
    again = rig.lease_one("w2")

    rig.restart(1.0)
    rig.run()

    assert rig.ack(again).ok
    assert not rig.store.load().restoring


def test_a_start_that_died_before_its_first_commit_lets_go_at_the_next():
    rig = Rig()
    task = rig.submit()
    rig.lease_one()
    rig.tables.restoring, rig.tables.restored_below = True, rig.tables.next_seq
    rig.restart()
    rig.restart()
    rig.run()

    assert rig.record(task.id).state_at(rig.now) is TaskState.READY
