"""The dead-letter queue: redrive, purge and retention."""

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c


def bury(rig, task=None, **fields):
    task = task if task is not None else rig.submit(**fields)
    rig.nack(rig.lease_one("grave"), retry=False)
    return task


def redrive(rig, *ids, capability=CAPABILITY, namespace=NAMESPACE, **options):
    return rig.do(c.Redrive(namespace, capability, ids, **options))


def purge(rig, *ids, capability=CAPABILITY, namespace=NAMESPACE):
    return rig.do(c.Purge(namespace, capability, ids))


def test_ends_are_counted_by_reason():
    rig = Rig()
    bury(rig)
    rig.do(c.Cancel(NAMESPACE, rig.submit().id))
    rig.submit(2, ttl_seconds=5)
    rig.submit()
    rig.ack(rig.lease_one("w2"))
    rig.wait(6)
    assert rig.core.endings((NAMESPACE, CAPABILITY)) == {"NoRetry": 1, "Cancelled": 1, "Expired": 1}


def test_dead_tasks_are_listed_in_order_page_by_page():
    rig = Rig()
    ids = [bury(rig).id for _ in range(5)]
    first = rig.dead(limit=3)
    second = rig.dead(after=first.next_after, limit=3)
    assert [record.live.id for record in (*first.records, *second.records)] == ids
    assert second.next_after is None
    assert rig.stats().dead == 5


def test_a_redriven_task_starts_anew_and_keeps_its_id_payload_and_history():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=2, backoff_seconds=0))
    task = rig.submit(payload=b'"page"')
    rig.nack(rig.lease_one(), checkpoint=b"7")
    rig.nack(rig.lease_one())
    (result,) = redrive(rig, task.id)
    assert result.redriven
    granted = rig.lease_one()
    assert (granted.task_id, granted.attempt, granted.epoch) == (task.id, 1, 3)
    delivery = rig.store.deliveries([task.id])[task.id]
    assert (delivery.payload, delivery.checkpoint) == (b'"page"', b"7")
    assert rig.events(task.id) == ["failed", "failed", "dead", "redriven"]
    assert rig.stats().dead == 0


def test_a_redriven_task_is_not_dropped_as_a_duplicate_of_itself():
    rig = Rig()
    task = bury(rig, idempotency_key="k")
    assert redrive(rig, task.id)[0].redriven
    assert rig.submit(idempotency_key="k").state is TaskState.READY
    assert rig.lease_one().task_id == task.id


def test_a_redrive_is_paced_by_admission():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=1, retry_after_seconds=9))
    ids = [bury(rig).id for _ in range(4)]
    results = redrive(rig, *ids)
    assert [result.redriven for result in results] == [True, True, False, False]
    assert (results[2].code, results[2].reason, results[2].retry_after_s) == ("saturated", "pool saturated", 9)
    assert rig.stats().dead == 2


def test_a_paced_redrive_leaves_half_of_the_queue_to_new_work():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=10))
    ids = [bury(rig).id for _ in range(20)]
    results = redrive(rig, *ids, paced=True)
    assert sum(result.redriven for result in results) == 6
    assert {result.code for result in results[6:]} == {"saturated"}
    accepted = [outcome for outcome in rig.submit(5) if hasattr(outcome, "id")]
    assert len(accepted) == 5


def test_a_repeated_redrive_gets_the_answer_of_the_first():
    rig = Rig()
    ids = [bury(rig).id for _ in range(2)]
    first = redrive(rig, *ids, operation="op")
    again = redrive(rig, *ids, operation="op")
    assert [(one.id, one.redriven, one.code) for one in again] == [
        (one.id, one.redriven, one.code) for one in first
    ]
    assert all(one.repeated for one in again)
    assert not rig.last.changes
    rig.restart()
    assert redrive(rig, ids[0], operation="op")[0].redriven
    assert redrive(rig, ids[0], operation="another")[0].code == "not_dead"
    assert redrive(rig, ids[0])[0].code == "not_dead"


def test_a_repeated_redrive_does_not_bring_back_what_has_died_again():
    rig = Rig()
    task = bury(rig)
    redrive(rig, task.id, operation="op")
    bury(rig, task)
    assert redrive(rig, task.id, operation="op")[0].repeated
    assert rig.stats().dead == 1
    assert not redrive(rig, task.id, operation="next")[0].repeated
    assert rig.stats().dead == 0


def test_two_calls_of_one_redrive_in_one_step_bring_a_task_back_once():
    rig = Rig()
    task = bury(rig)
    command = c.Redrive(NAMESPACE, CAPABILITY, (task.id,), operation="op")
    (first,), (second,) = rig.run([command, command])
    assert (first.redriven, first.repeated, second.redriven, second.repeated) == (True, False, True, True)


def test_a_redrive_that_was_refused_for_depth_is_not_taken_for_done():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=0))
    ids = [bury(rig).id for _ in range(2)]
    assert [one.code for one in redrive(rig, *ids, operation="op")] == [None, "saturated"]
    rig.ack(rig.lease_one())
    again = redrive(rig, *ids, operation="op")
    assert [(one.redriven, one.repeated) for one in again] == [(True, True), (True, False)]


def test_a_dry_run_changes_nothing():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=0))
    ids = [bury(rig).id for _ in range(2)]
    queued = rig.submit()
    assert [one.code for one in redrive(rig, *ids, queued.id, dry_run=True)] == ["dry_run", "dry_run", "not_dead"]
    assert not rig.last.changes
    assert rig.stats().dead == 2


def test_a_purged_task_is_gone_with_all_that_belongs_to_it_and_its_key_is_free():
    rig = Rig()
    task = bury(rig, idempotency_key="k")
    other = bury(rig)
    redrive(rig, other.id, operation="op")
    bury(rig, other)
    assert [one.purged for one in purge(rig, task.id, other.id)] == [True, True]
    assert rig.record(task.id) is None
    assert rig.stats().dead == 0
    assert (rig.tables.ended, rig.tables.payloads, rig.tables.history) == ({}, {}, {})
    assert (rig.tables.keys, rig.tables.redriven) == ({}, {})
    assert not rig.submit(idempotency_key="k").duplicate
    totals = rig.core.totals((NAMESPACE, CAPABILITY))
    assert (totals.redriven, totals.purged) == (1, 2)
    rig.restart()
    assert rig.stats().dead == 0


def test_only_the_dead_of_the_queue_are_purged():
    rig = Rig(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="other"))
    dead = bury(rig)
    completed = rig.submit()
    rig.ack(rig.lease_one())
    queued = rig.submit()
    codes = [one.code for one in purge(rig, queued.id, completed.id, "nonsense")]
    assert codes == ["not_dead", "not_dead", "unknown_task"]
    assert purge(rig, dead.id, capability="other")[0].code == "unknown_task"
    assert purge(rig, dead.id, namespace="other")[0].code == "unknown_task"
    assert rig.stats().dead == 1


def test_a_purge_a_redrive_and_the_sweep_of_one_task_in_one_step_agree():
    for first in ("purge", "redrive"):
        rig = Rig(CapabilityConfig(name=CAPABILITY, dead_retention_seconds=1000))
        task = bury(rig)
        rig.freeze(999.5)
        commands = [c.Purge(NAMESPACE, CAPABILITY, (task.id,)), c.Redrive(NAMESPACE, CAPABILITY, (task.id,))]
        ordered = commands if first == "purge" else commands[::-1]
        done, late, swept = rig.run([*ordered, c.Sweep(before=rig.now + 1)])
        assert done[0].code is None
        assert late[0].code == ("unknown_task" if first == "purge" else "not_dead")
        assert swept.removed == 0
        assert rig.stats().dead == 0
        assert (rig.row(task.id) is None) == (first == "purge")


def test_purging_the_last_task_of_a_queue_that_is_no_longer_listed_ends_it():
    rig = Rig(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="other"))
    task = bury(rig)
    rig.configure(CapabilityConfig(name="other"))
    purge(rig, task.id)
    assert (NAMESPACE, CAPABILITY) not in rig.core.queue_keys()


def test_what_is_not_dead_is_not_redriven():
    rig = Rig()
    queued = rig.submit()
    completed = rig.submit()
    rig.ack(rig.lease("w1", slots=2)[1])
    codes = [result.code for result in redrive(rig, queued.id, completed.id, "0" * 20, "nonsense")]
    assert codes == ["not_dead", "not_dead", "unknown_task", "unknown_task"]


def test_a_task_is_redriven_only_from_its_own_queue():
    rig = Rig(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="other"))
    task = bury(rig)
    assert redrive(rig, task.id, capability="other")[0].code == "unknown_task"
    assert redrive(rig, task.id, namespace="other")[0].code == "unknown_task"


def test_one_id_twice_in_a_redrive_is_one_task():
    rig = Rig()
    task = bury(rig)
    assert [result.code for result in redrive(rig, task.id, task.id)] == [None, "not_dead"]
    assert rig.stats().ready == 1


def test_a_task_that_dies_in_the_step_of_its_redrive_stays_dead_and_can_be_redriven_then():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    nack = c.Nack(NAMESPACE, granted.token, "E", retry=False)
    _, (result,) = rig.run([nack, c.Redrive(NAMESPACE, CAPABILITY, (task.id,))])
    assert result.code == "not_dead"
    assert redrive(rig, task.id)[0].redriven


def test_a_redriven_task_that_dies_in_the_same_step_is_dead_in_the_store_too():
    rig = Rig()
    task = bury(rig)
    rig.run([c.Redrive(NAMESPACE, CAPABILITY, (task.id,)), c.Cancel(NAMESPACE, task.id)])
    assert rig.record(task.id).ended.state is TaskState.CANCELLED
    rig.restart()
    assert rig.row(task.id) is None


def expires_in(rig: Rig, task, seconds: float) -> None:
    """Wait until the task's ttl is over, and see it live until then."""
    rig.wait(seconds - 1)
    assert rig.row(task.id) is not None
    rig.wait(1)
    assert rig.record(task.id).ended.state is TaskState.EXPIRED


def test_the_ttl_of_a_redriven_task_starts_anew():
    rig = Rig()
    task = bury(rig, ttl_seconds=60)
    rig.wait(1000)
    redrive(rig, task.id)
    expires_in(rig, task, 60)


def test_the_ttl_of_a_task_that_is_redriven_again_and_again_never_grows():
    rig = Rig()
    task = bury(rig, ttl_seconds=60)
    for operation in ("", "fix", ""):
        rig.wait(1000)
        redrive(rig, task.id, operation=operation)
        rig.restart(1.0)
        bury(rig, task)
    rig.wait(1000)
    redrive(rig, task.id)
    expires_in(rig, task, 60)


def test_the_token_of_before_the_redrive_is_worth_nothing_after_a_new_delivery():
    rig = Rig()
    task = rig.submit()
    old = rig.lease_one()
    rig.nack(old, retry=False)
    redrive(rig, task.id)
    assert rig.ack(old).code == "already_settled"
    new = rig.lease_one()
    assert rig.ack(old).code == "already_settled"
    assert rig.ack(new).ok
    assert rig.ack(old).code == "lease_lost"


def test_a_redrive_outlives_a_restart():
    rig = Rig()
    task = bury(rig)
    redrive(rig, task.id)
    rig.restart()
    assert rig.stats().dead == 0
    assert rig.lease_one().task_id == task.id


def test_terminal_tasks_go_when_their_retention_is_over():
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=100, dead_retention_seconds=1000))
    done = rig.submit()
    rig.ack(rig.lease_one())
    dead = bury(rig)
    rig.wait(131)
    assert rig.record(done.id) is None
    assert done.id not in str(rig.tables.ended)
    assert rig.record(dead.id) is not None
    rig.wait(1000)
    assert rig.record(dead.id) is None
    assert rig.stats().dead == 0
    assert (rig.tables.ended, rig.tables.payloads, rig.tables.history) == ({}, {}, {})


def test_many_rows_due_for_removal_go_in_bounded_steps():
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=10))
    rig.submit(1200)
    for lease in rig.lease("w1", slots=1200):
        rig.ack(lease)
    rig.wait(9)
    rig.freeze(60)
    removed = []
    for _ in range(4):
        before = len(rig.tables.ended)
        rig.run()
        removed.append(before - len(rig.tables.ended))
    assert removed == [500, 500, 200, 0]


def test_a_dead_task_that_is_redriven_in_the_step_that_would_remove_it_lives():
    rig = Rig(CapabilityConfig(name=CAPABILITY, dead_retention_seconds=1000))
    task = bury(rig)
    rig.freeze(999.5)
    sweep = c.Sweep(before=rig.now + 1)
    (result,), swept = rig.run([c.Redrive(NAMESPACE, CAPABILITY, (task.id,)), sweep])
    assert result.redriven
    assert swept.removed == 0
    assert rig.lease_one().task_id == task.id
    assert rig.store.deliveries([task.id])[task.id].payload == b"null"


def test_a_dead_task_that_is_removed_in_the_step_that_would_redrive_it_is_gone():
    rig = Rig(CapabilityConfig(name=CAPABILITY, dead_retention_seconds=1000))
    task = bury(rig)
    rig.freeze(999.5)
    sweep = c.Sweep(before=rig.now + 1)
    swept, (result,) = rig.run([sweep, c.Redrive(NAMESPACE, CAPABILITY, (task.id,))])
    assert (swept.removed, result.code) == (1, "unknown_task")
    assert rig.stats().dead == 0
