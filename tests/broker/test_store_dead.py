"""What every store must do for dead-letter queues: list, filter, count, remember a redrive."""

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.rows import Needs, RedriveRow
from leadsman_broker.store.dead import DeadQuery
from leadsman_broker.store.interface import TaskPage


def test_the_dead_are_listed_by_queue_in_order_in_pages(store):
    rig = Rig(CapabilityConfig(name="a"), CapabilityConfig(name="b"), store=store)
    dead = {"a": [], "b": []}
    for number in range(10):
        name = "ab"[number % 2]
        dead[name].append(rig.submit(1, name).id)
        rig.nack(rig.lease_one("w1", name), retry=False)
    rig.submit(1, "a")
    first = rig.dead("a", limit=3)
    rest = rig.dead("a", after=first.next_after, limit=3)
    assert [record.live.id for record in (*first.records, *rest.records)] == dead["a"]
    assert rest.next_after is None
    assert rig.dead("nobody") == TaskPage([], None)
    assert store.load().dead == {(NAMESPACE, "a"): 5, (NAMESPACE, "b"): 5}


def bury_some(store) -> tuple[Rig, list[str]]:
    """Eight dead tasks: of two tenants and handlers, with three errors, a second apart."""
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=1), store=store)
    ids = []
    for number in range(8):
        ids.append(rig.submit(tenant="ab"[number % 2], name=f"h{number // 4}", run_id="r" * (number == 7)).id)
        granted = rig.lease_one()
        if number == 0:
            rig.wait(30)  # lost: dead without an error
        else:
            rig.nack(granted, error_type=f"E{number % 2}", error_message=f"no {number}", retry=number != 6)
        rig.freeze(1)
    return rig, ids


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({}, range(8)),
        ({"error_type": "E0"}, [2, 4, 6]),
        ({"error_type": ""}, [0]),
        ({"reason": "NoRetry"}, [6]),
        ({"name": "h1"}, [4, 5, 6, 7]),
        ({"tenant": "b", "error_type": "E1"}, [1, 3, 5, 7]),
        ({"run_id": "r"}, [7]),
        ({"name": "h0", "tenant": "a"}, [0, 2]),
        ({"tenant": "nobody"}, []),
    ],
)
def test_the_dead_are_chosen_by_filter_page_by_page(store, chosen, wanted):
    rig, ids = bury_some(store)
    found = []
    after = 0
    while after is not None:
        page = rig.dead(after=after, limit=2, **chosen)
        assert len(page.records) <= 2
        found += [record.live.id for record in page.records]
        after = page.next_after
    assert found == [ids[number] for number in wanted]
    groups = store.dead_groups(DeadQuery(NAMESPACE, CAPABILITY, **chosen), rig.now)
    assert sum(group.tasks for group in groups) == len(found)


def test_the_dead_are_chosen_by_when_they_died(store):
    rig, ids = bury_some(store)
    died = [store.task(NAMESPACE, task, rig.now).ended.ended_at for task in ids]
    chosen = rig.dead(died_after=died[3], died_before=died[6])
    assert [record.live.id for record in chosen.records] == ids[3:6]


def test_the_dead_are_counted_by_reason_and_error_with_a_sample(store):
    rig, ids = bury_some(store)
    died = [store.task(NAMESPACE, task, rig.now).ended.ended_at for task in ids]
    groups = store.dead_groups(DeadQuery(NAMESPACE, CAPABILITY), rig.now)
    assert [(group.reason, group.error_type, group.tasks) for group in groups] == [
        ("MaxAttempts", "E1", 4),
        ("MaxAttempts", "E0", 2),
        ("MaxAttempts", "", 1),
        ("NoRetry", "E0", 1),
    ]
    first = groups[0]
    assert (first.first_died_at, first.last_died_at) == (died[1], died[7])
    assert (first.sample_id, first.sample_message) == (ids[7], "no 7")
    assert groups[2].sample_message is None
    assert store.dead_groups(DeadQuery(NAMESPACE, "nobody"), rig.now) == []


def test_which_redrive_brought_a_task_back_is_kept_counted_and_goes_with_the_task(reopen):
    store = reopen()
    rig, ids = bury_some(store)
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, tuple(ids[:5]), operation="one"))
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, tuple(ids[5:6]), operation="two"))
    third = rig.row(ids[2]).seq
    store = reopen()
    assert (store.redriven_by("one", 0), store.redriven_by("one", third), store.redriven_by("two", 0)) == (5, 2, 1)
    one, two = (RedriveRow(name, rig.now) for name in ("one", "two"))
    known = store.read(Needs(redriven={*ids, "nonsense"})).redriven
    assert known == dict.fromkeys(ids[:5], one) | {ids[5]: two}
    rig.store = store
    assert len(rig.lease("w9", slots=9)) == 6
    rig.wait(31)  # all lost, and dead again
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, (ids[0],), operation="two"))
    rig.do(c.Purge(NAMESPACE, CAPABILITY, tuple(ids[1:])))
    assert (store.redriven_by("one", 0), store.redriven_by("two", 0)) == (0, 1)
