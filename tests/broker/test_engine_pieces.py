"""The engine's small pieces: fresh deliveries, randomness, watches, the pace of the stats stream."""

import asyncio
import time
from statistics import fmean

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core.core import Changed, Core
from leadsman_broker.core.rows import (
    AcceptedRow,
    Changes,
    EndedRow,
    Ending,
    LiveRow,
    Standing,
)
from leadsman_broker.engine.clock import Clock
from leadsman_broker.engine.feed import Feed
from leadsman_broker.engine.fresh import FreshDeliveries
from leadsman_broker.engine.randomness import SecureRandom
from leadsman_broker.engine.watch import Watches
from leadsman_broker.engine.writer import Worker
from leadsman_broker.store.memory import MemoryStore

STANDING = Standing(
    **dict.fromkeys(Standing._fields)
    | {"epoch": 0, "history": 0, "due_at": 0.0, "backing_off": False, "suspect": False, "cancel": False}
)


def live(seq):
    return LiveRow(
        seq, f"{seq:012x}{seq:08x}", "ns", "work", "", TaskClass.BACKGROUND, 0, False, 0.0, 5, "", None, STANDING
    )


def ending(seq):
    return Ending(EndedRow(live(seq), TaskState.COMPLETED, 0.0, 0.0, 0.0, False), None, None, None, None)


@st.composite
def histories(draw):
    """Steps as a core makes them: tasks are accepted, get checkpoints, and end."""
    alive, steps, seq = [], [], 0
    for _ in range(draw(st.integers(1, 12))):
        changes = Changes()
        for size in draw(st.lists(st.integers(0, 60), max_size=4)):
            seq += 1
            alive.append(seq)
            changes.accepted.append(AcceptedRow(live(seq), f"name{seq}", b"x" * size, None, b"", None))
        for chosen in draw(st.lists(st.sampled_from(alive), max_size=3)) if alive else []:
            changes.checkpoints[chosen] = draw(st.binary(max_size=5))
        for chosen in draw(st.lists(st.sampled_from(alive), max_size=2, unique=True)) if alive else []:
            alive.remove(chosen)
            changes.checkpoints.pop(chosen, None)
            changes.ended.append(ending(chosen))
        steps.append(changes)
    return seq, steps


@given(histories(), st.integers(0, 300))
def test_fresh_deliveries_are_what_the_store_would_answer(history, capacity):
    last, steps = history
    fresh, store = FreshDeliveries(capacity), MemoryStore()
    ids = [live(seq).id for seq in range(1, last + 1)]
    for changes in steps:
        fresh.follow(changes)
        store.commit(changes)

        found, unknown = fresh.take(ids)
        stored = store.deliveries(ids)

        assert found == {task_id: stored[task_id] for task_id in found}
        assert sorted([*found, *unknown]) == sorted(ids)
        assert sum(len(delivery.payload) for delivery in found.values()) <= capacity


def test_fresh_deliveries_drop_the_oldest_first():
    fresh = FreshDeliveries(100)
    rows = [AcceptedRow(live(seq), "n", b"x" * 40, None, b"", None) for seq in (1, 2, 3)]
    fresh.follow(Changes(accepted=rows))

    assert [*fresh.take([row.live.id for row in rows])[0]] == [live(2).id, live(3).id]


@given(st.integers(1, 300))
def test_random_bits_fit_their_number(bits):
    rand = SecureRandom()

    assert 0 <= rand.getrandbits(bits) < 1 << bits


def test_random_numbers_are_spread_and_do_not_repeat():
    rand = SecureRandom()
    drawn = [rand.random() for _ in range(20_000)]

    assert all(0 <= number < 1 for number in drawn)
    assert len(set(drawn)) == len(drawn)
    assert 0.48 < fmean(drawn) < 0.52


async def test_everyone_who_watches_a_task_is_told_once_it_ended():
    watches = Watches()
    with watches.on(live(1).id) as first, watches.on(live(1).id) as second, watches.on(live(2).id) as other:
        watches.ended([ending(1)])

        assert first.done()
        assert second.done()
        assert not other.done()
    watches.ended([ending(1), ending(2)])
    with watches.on(live(2).id) as late:
        assert not late.done()
        watches.close()
        assert late.done()


async def test_a_worker_thread_runs_calls_in_order_and_hands_back_what_they_raise():
    worker, seen = Worker("test"), []
    first, second = worker.call(seen.append, 1), worker.call(seen.append, 2)
    failing = worker.call(int, "x")
    forgotten = worker.call(seen.append, 3)
    forgotten.cancel()
    last = worker.call(seen.append, 4)

    await asyncio.gather(first, second, last)
    with pytest.raises(ValueError, match="invalid literal"):
        await failing
    worker.stop()

    assert seen == [1, 2, 3, 4]


def test_the_clock_goes_on_from_the_last_commit_when_the_wall_clock_was_set_back():
    last_commit = time.time() + 3600

    clock = Clock(not_before=last_commit)

    first, second = clock.now(), clock.now()
    assert last_commit <= first <= second < last_commit + 60


def test_the_clock_begins_at_the_wall_clock_otherwise():
    before = time.time()

    assert before - 1 <= Clock(not_before=before - 3600).now() <= time.time() + 1


def test_two_edges_in_one_turn_of_the_loop_that_production_uses_are_pushed_as_one():
    edge = Changed(queues=frozenset({("ns", "work")}), workers=frozenset(), fences=False, urgent=True)

    async def scenario():
        clock = Clock()
        feed = Feed(Core(MemoryStore().load(), clock.now(), SecureRandom()), clock, "epoch")
        reader = feed.subscribe()
        feed.note(edge)
        feed.note(edge)
        events = [await reader.next(), await reader.next()]
        await feed.close()
        return events

    kinds = [event.kind for event in uvloop.run(scenario())]
    assert kinds == ["snapshot", "delta"]
