"""Which task goes next."""

from hypothesis import given
from hypothesis import strategies as st

from core_rig import CAPABILITY, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core.commands import Cancel


def strict(**fields) -> CapabilityConfig:
    return CapabilityConfig(name=CAPABILITY, lowest_band_every=0, **fields)


def test_tasks_of_one_priority_go_in_order_of_acceptance():
    rig = Rig()
    accepted = [outcome.id for outcome in rig.submit(5)]
    assert [rig.lease_one(f"w{n}").task_id for n in range(5)] == accepted


def test_a_higher_priority_goes_first_whenever_it_came():
    rig = Rig()
    low = rig.submit(priority=0)
    high = rig.submit(priority=5)
    assert rig.lease_one("w1").task_id == high.id
    assert rig.lease_one("w2").task_id == low.id


def test_the_class_gives_a_default_priority_and_never_orders_by_itself():
    rig = Rig(strict())
    background = rig.submit()
    interactive = rig.submit(task_class=TaskClass.INTERACTIVE)
    raised = rig.submit(priority=6)
    lowered = rig.submit(task_class=TaskClass.INTERACTIVE, priority=0)
    order = [rig.lease_one(f"w{n}").task_id for n in range(4)]
    assert order == [raised.id, interactive.id, background.id, lowered.id]


def test_a_task_that_comes_back_takes_its_old_place():
    rig = Rig()
    first, second = rig.submit(2)
    rig.release(rig.lease_one("w1"))
    assert rig.lease_one("w2").task_id == first.id
    assert rig.lease_one("w3").task_id == second.id


def test_a_delayed_task_keeps_the_place_of_its_acceptance_once_it_is_due():
    rig = Rig()
    delayed = rig.submit(delay_seconds=10)
    rig.submit(3)
    rig.wait(10)
    assert rig.lease_one().task_id == delayed.id


def test_a_ready_task_does_not_wait_behind_a_retry_that_is_due_later():
    rig = Rig()
    failing, other = rig.submit(2)
    rig.nack(rig.lease_one("w1"), retry_after_seconds=600)
    assert rig.lease_one("w1").task_id == other.id
    assert rig.row(failing.id).state == "delayed"


def test_every_sixteenth_pick_takes_the_oldest_of_the_lowest_band():
    rig = Rig()
    low, *_ = rig.submit(3, priority=0)
    rig.submit(100, priority=9)
    picked = [rig.lease_one(f"w{n}").priority for n in range(32)]
    assert [number for number, priority in enumerate(picked, start=1) if priority == 0] == [16, 32]
    assert rig.row(low.id).lease is not None


def test_the_sixteenth_is_the_oldest_of_its_band_whoevers_turn_it_would_be():
    rig = Rig()
    old, *_ = rig.submit(3, priority=0, tenant="a")
    rig.submit(3, priority=0, tenant="b")
    rig.submit(100, priority=9, tenant="a")
    picked = [rig.lease_one(f"w{n}") for n in range(16)]
    assert {lease.tenant for lease in picked} == {"a"}, "b holds nothing, so that a turn would be its"
    assert picked[15].task_id == old.id


def test_strict_priority_never_looks_at_a_lower_band_first():
    rig = Rig(strict())
    rig.submit(priority=0)
    rig.submit(40, priority=9)
    assert {rig.lease_one(f"w{n}").priority for n in range(40)} == {9}


def test_a_worker_of_several_capabilities_starts_after_the_one_it_was_last_served():
    rig = Rig(CapabilityConfig(name="llm"), CapabilityConfig(name="code"), CapabilityConfig(name="search"))
    for capability in ("llm", "code", "search"):
        rig.submit(3, capability)
    served = []
    for _ in range(6):
        granted = rig.lease_one("w1", "code", "llm", "search")
        served.append(granted.capability)
        rig.ack(granted)
    assert served == ["code", "llm", "search", "code", "llm", "search"]


def test_several_free_slots_are_filled_round_the_capabilities():
    rig = Rig(CapabilityConfig(name="llm"), CapabilityConfig(name="code"))
    rig.submit(5, "llm")
    rig.submit(5, "code")
    got = [lease.capability for lease in rig.lease("w1", "code", "llm", slots=4)]
    assert got == ["code", "llm", "code", "llm"]


def test_a_worker_gets_no_more_of_a_capability_than_it_has_room_for():
    rig = Rig(CapabilityConfig(name="llm"), CapabilityConfig(name="code"))
    rig.submit(5, "llm")
    rig.submit(5, "code")
    got = [lease.capability for lease in rig.lease("w1", "code", "llm", slots=4, free_by={"code": 1, "llm": 2})]
    assert sorted(got) == ["code", "llm", "llm"]


def test_a_queue_of_another_namespace_is_out_of_reach():
    rig = Rig()
    rig.configure(CapabilityConfig(name=CAPABILITY), namespace="other")
    rig.submit(namespace="other")
    assert rig.lease() == []


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40))
def test_the_order_is_priority_then_seq_whatever_came_back_or_was_cancelled(tasks):
    rig = Rig(strict())
    ids = [rig.submit(priority=priority).id for priority, _ in tasks]
    held = rig.lease("gone", slots=max(1, len(ids)))
    for lease in held:
        rig.release(lease)
    kept = []
    for task_id, (priority, cancelled) in zip(ids, tasks, strict=True):
        if cancelled:
            rig.do(Cancel("agents", task_id))
        else:
            kept.append((-priority, task_id))
    got = [(-lease.priority, lease.task_id) for lease in rig.lease("w1", slots=max(1, len(ids)))]
    assert got == sorted(kept)
