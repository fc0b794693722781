"""Shedding by stated policy: only background work of lower priority, never started, listed and counted."""

from hypothesis import given
from hypothesis import strategies as st

from core_rig import CAPABILITY, NAMESPACE, Rig, check
from leadsman.wire.capabilities import CapabilityConfig, OnFull
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Accepted, Saturated

DROP = {"on_full": OnFull.DROP_LOWEST_PRIORITY, "max_depth": 2}


def dropping(**fields):
    return Rig(CapabilityConfig(name=CAPABILITY, **{**DROP, **fields}))


def states(rig, tasks):
    return [rig.record(task.id).state_at(rig.now) for task in tasks]


def test_by_default_nothing_is_dropped():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=2))
    rig.submit(3)
    assert isinstance(rig.submit(priority=9), Saturated)
    assert rig.stats().shed_total == 0


def test_a_full_queue_drops_the_newest_of_the_lowest_priority():
    rig = dropping()
    tasks = [rig.submit(priority=priority) for priority in (1, 3, 1)]
    new = rig.submit(priority=2)
    assert isinstance(new, Accepted)
    assert states(rig, [*tasks, new]) == ["ready", "ready", "shed", "ready"]
    record = rig.record(tasks[2].id)
    assert (record.reason, [entry.event for entry in record.history]) == ("Shed", ["shed"])
    assert (rig.stats().ready, rig.stats().shed_total) == (3, 1)
    assert rig.core.totals((NAMESPACE, CAPABILITY)).shed == 1


def test_equal_or_lower_priority_is_refused_as_ever():
    rig = dropping()
    tasks = rig.submit(3, priority=2)
    for priority in (0, 2):
        assert isinstance(rig.submit(priority=priority), Saturated)
    assert states(rig, tasks) == ["ready"] * 3


def test_interactive_work_is_never_dropped():
    rig = dropping()
    tasks = rig.submit(3, priority=0, task_class=TaskClass.INTERACTIVE)
    assert isinstance(rig.submit(priority=9), Saturated)
    assert states(rig, tasks) == ["ready"] * 3


def test_what_was_started_is_never_dropped():
    rig = dropping(backoff_seconds=0)
    started = rig.submit(2, priority=0)
    for granted in rig.lease("w1", slots=2):
        rig.nack(granted)
    leased = rig.submit(priority=0)
    rig.submit(priority=1)
    assert isinstance(rig.submit(priority=9), Accepted)
    assert states(rig, [*started, leased]) == ["ready", "ready", "shed"]
    assert rig.lease("w1", slots=1)[0].priority == 9


def test_a_delayed_task_may_be_dropped_and_is_never_leased():
    rig = dropping()
    later = rig.submit(priority=0, delay_seconds=60)
    rig.submit(2, priority=5)
    rig.submit(priority=9)
    assert states(rig, [later]) == ["shed"]
    rig.wait(100)
    assert len(rig.lease("w1", slots=9)) == 3


def test_a_tenant_over_its_own_depth_gets_no_place_by_the_loss_of_others():
    rig = dropping(max_depth_per_tenant=0)
    others = rig.submit(2, priority=0)
    rig.submit(priority=0, tenant="a")
    assert isinstance(rig.submit(priority=9, tenant="a"), Saturated)
    assert states(rig, others) == ["ready"] * 2


def test_a_task_of_the_same_batch_may_be_the_one_that_goes():
    rig = dropping()
    tasks = tuple(c.NewTask(CAPABILITY, priority=priority) for priority in (1, 1, 1, 5))
    outcomes = rig.do(c.Enqueue(NAMESPACE, tasks))
    assert states(rig, outcomes) == ["ready", "ready", "shed", "ready"]
    rig.restart()
    assert rig.stats().ready == 3


def test_the_key_of_a_dropped_task_tells_what_became_of_it():
    rig = dropping()
    rig.submit(2, priority=1)
    dropped = rig.submit(priority=0, idempotency_key="k")
    rig.submit(priority=1)
    again = rig.submit(priority=0, idempotency_key="k")
    assert (again.id, again.duplicate, again.state) == (dropped.id, True, TaskState.SHED)


def test_after_a_restart_the_same_tasks_may_be_dropped():
    rig = dropping()
    tasks = [rig.submit(priority=priority) for priority in (1, 3, 1)]
    rig.restart()
    rig.submit(priority=2)
    assert states(rig, tasks) == ["ready", "ready", "shed"]


def test_the_policy_may_be_changed_while_tasks_wait():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=2))
    tasks = rig.submit(3, priority=1)
    rig.configure(CapabilityConfig(name=CAPABILITY, **DROP))
    assert isinstance(rig.submit(priority=2), Accepted)
    rig.configure(CapabilityConfig(name=CAPABILITY, max_depth=2))
    assert isinstance(rig.submit(priority=9), Saturated)
    assert states(rig, tasks) == ["ready", "ready", "shed"]


def test_room_is_made_for_all_that_is_over_or_nothing_is_dropped():
    rig = dropping(max_depth=5)
    low = rig.submit(2, priority=0)
    rig.submit(4, priority=5)
    rig.configure(CapabilityConfig(name=CAPABILITY, **{**DROP, "max_depth": 3}))
    assert isinstance(rig.submit(priority=2), Saturated)
    assert states(rig, low) == ["ready"] * 2
    assert isinstance(rig.submit(priority=6), Accepted)
    assert states(rig, low) == ["shed"] * 2


def test_making_room_is_no_drain():
    rig = dropping(retry_after_seconds=77)
    rig.submit(3, priority=0)
    for priority in range(1, 9):
        rig.wait(1)
        rig.submit(3, priority=priority)
    assert rig.core.totals((NAMESPACE, CAPABILITY)).shed > 20, "more than it takes to know a rate"
    assert rig.submit(priority=0).retry_after_s == 77


def test_a_long_life_leaves_nothing_behind():
    rig = dropping(max_depth=10)
    for _ in range(400):
        rig.submit(6)
        for granted in rig.lease("w1", slots=6):
            rig.ack(granted)
    assert rig.core.state.queues[NAMESPACE, CAPABILITY].sheddable._entries <= 1024


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from(["", "", "lease", "ack", "delay", "restart"])),
        max_size=60,
    )
)
def test_only_lower_background_work_is_ever_dropped_and_every_drop_is_seen(steps):
    rig = dropping(max_depth=4)
    tasks = {}
    for priority, interactive, then in steps:
        before = {task: rig.record(task).state_at(rig.now) for task in tasks}
        kind = TaskClass.INTERACTIVE if interactive else TaskClass.BACKGROUND
        delay = 5.0 if then == "delay" else 0.0
        outcome = rig.submit(priority=priority, task_class=kind, delay_seconds=delay)
        shed = [task for task in tasks if rig.record(task).state_at(rig.now) is TaskState.SHED]
        new = [task for task in shed if before[task] is not TaskState.SHED]
        assert rig.stats().shed_total == len(shed)
        if isinstance(outcome, Saturated):
            assert not new
        else:
            tasks[outcome.id] = (priority, interactive)
        for task in new:
            assert tasks[task][0] < priority
            assert not tasks[task][1]
            assert rig.record(task).live.standing.epoch == 0
        assert rig.stats().ready + rig.stats().delayed <= 5
        if then in {"lease", "ack"}:
            for granted in rig.lease("w1", slots=1):
                rig.ack(granted) if then == "ack" else rig.release(granted)
        if then == "restart":
            rig.restart(1.0)
        check(rig.core)
