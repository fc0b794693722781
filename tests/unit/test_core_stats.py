"""What the scaler is told."""

import random

from hypothesis import given
from hypothesis import strategies as st

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core.commands import Cancel
from leadsman_broker.core.service_times import DrainRate, ServiceTimes


def test_every_task_is_counted_where_it_stands():
    rig = Rig()
    rig.submit(6)
    held = rig.lease("w1", slots=4)
    rig.ack(held[0])
    rig.nack(held[1])
    rig.nack(held[2], retry=False)
    rig.submit(2, delay_seconds=60)
    stats = rig.stats()
    assert (stats.ready, stats.delayed, stats.leased, stats.dead) == (2, 3, 1, 1)
    assert (stats.waiting, stats.leasable) == (2, 2)
    assert stats.blocked == {"Delayed": 2, "Backoff": 1}
    assert (stats.accepted_total, stats.completed_total, stats.failed_total) == (8, 1, 2)


def test_delayed_work_within_the_start_up_time_is_due_soon_and_retries_never_are():
    rig = Rig(CapabilityConfig(name=CAPABILITY, startup_seconds=30))
    rig.submit()
    rig.nack(rig.lease_one(), retry_after_seconds=10)
    rig.submit(2, delay_seconds=25)
    rig.submit(1, delay_seconds=45)
    assert rig.stats().due_soon == 2
    rig.wait(16)
    assert rig.stats().due_soon == 3
    rig.wait(10)
    assert rig.stats().due_soon == 1
    rig.wait(30)
    assert rig.stats().due_soon == 0


def test_coming_within_the_start_up_time_is_an_edge():
    rig = Rig(CapabilityConfig(name=CAPABILITY, startup_seconds=30))
    rig.submit(delay_seconds=100)
    rig.core.take_changed()
    rig.wait(69)
    assert not rig.core.take_changed().urgent
    rig.wait(1)
    changed = rig.core.take_changed()
    assert changed.urgent
    assert (NAMESPACE, CAPABILITY) in changed.queues


def test_the_next_due_time_looks_past_what_was_cancelled():
    rig = Rig()
    first = rig.submit(delay_seconds=10)
    rig.submit(delay_seconds=50)
    assert rig.stats().next_due_seconds == 10
    rig.do(Cancel(NAMESPACE, first.id))
    assert rig.stats().next_due_seconds == 50
    assert Rig().stats().next_due_seconds is None


def test_the_oldest_age_is_that_of_the_task_that_could_be_leased_for_the_longest():
    rig = Rig()
    assert rig.stats().oldest_age_seconds is None
    early = rig.submit(delay_seconds=30)
    rig.wait(10)
    rig.submit(priority=3)
    rig.wait(25)
    assert rig.row(early.id).seq == 1
    assert rig.stats().oldest_age_seconds == 25
    rig.lease_one("w1")
    assert rig.stats().oldest_age_seconds == 5
    rig.lease_one("w2")
    assert rig.stats().oldest_age_seconds is None


def test_a_task_that_comes_back_is_as_old_as_its_return():
    rig = Rig()
    rig.submit()
    rig.wait(100)
    granted = rig.lease_one()
    rig.wait(7)
    rig.release(granted)
    rig.wait(3)
    assert rig.stats().oldest_age_seconds == 3


@given(st.lists(st.integers(0, 3), max_size=60), st.randoms(use_true_random=False))
def test_the_oldest_age_is_right_whatever_came_back_in_whatever_order(moves, dice):
    rig = Rig()
    held = []
    for move in moves:
        rig.freeze(1)
        if move == 0:
            rig.submit(priority=dice.randrange(3))
        elif move == 1:
            held += rig.lease("w1", slots=99, free=1)
        elif move == 2 and held:
            rig.release(held.pop(dice.randrange(len(held))))
        else:
            rig.submit(delay_seconds=2)
            rig.run()
    ready = [rig.now - row.due_at for row in rig.core.state.tasks.values() if row.state == "ready"]
    assert rig.stats().oldest_age_seconds == max(ready, default=None)


def test_the_first_ready_task_is_an_edge_and_the_second_is_not():
    rig = Rig()
    rig.core.take_changed()
    rig.submit()
    assert rig.core.take_changed().urgent
    rig.submit()
    changed = rig.core.take_changed()
    assert not changed.urgent
    assert changed.queues == {(NAMESPACE, CAPABILITY)}


def test_a_worker_becoming_busy_or_idle_is_an_edge():
    rig = Rig()
    rig.submit(3)
    rig.core.take_changed()
    first = rig.lease_one("w1", slots=3, free=1)
    assert rig.core.take_changed().urgent
    second = rig.lease_one("w1", slots=3, free=1)
    assert not rig.core.take_changed().urgent
    rig.ack(first)
    assert not rig.core.take_changed().urgent
    rig.ack(second)
    changed = rig.core.take_changed()
    assert changed.urgent
    assert changed.workers == {(NAMESPACE, "w1", "1")}


def test_a_heartbeat_of_a_known_worker_changes_nothing():
    rig = Rig()
    rig.beat("w1")
    rig.core.take_changed()
    rig.beat("w1")
    changed = rig.core.take_changed()
    assert (changed.queues, changed.workers, changed.urgent) == (frozenset(), frozenset(), False)


def test_a_worker_is_shown_with_what_it_holds_and_for_how_long_it_was_idle():
    rig = Rig(CapabilityConfig(name="llm"), CapabilityConfig(name="code"))
    rig.submit(2, "llm")
    rig.submit(1, "code")
    rig.wait(5)
    rig.beat("w1", capabilities=("llm", "code"), slots=4)
    rig.wait(5)
    held = rig.lease("w1", "llm", "code", slots=4)
    stats = rig.worker("w1")
    assert (stats.leases, stats.leases_by_capability, stats.idle_seconds) == (3, {"llm": 2, "code": 1}, 0)
    assert (stats.slots, stats.capabilities, stats.pool) == (4, ["llm", "code"], "pool")
    for lease in held:
        rig.ack(lease)
    rig.wait(8)
    stats = rig.worker("w1")
    assert (stats.leases, stats.idle_seconds, stats.last_heard_seconds) == (0, 8, 8)


def test_a_worker_known_only_from_its_leases_is_shown_after_a_restart():
    rig = Rig()
    rig.submit(2)
    rig.lease("w1", slots=2)
    rig.restart()
    stats = rig.worker("w1")
    assert (stats.leases, stats.slots, stats.pool) == (2, 2, "pool")


def test_the_service_time_is_unknown_below_ten_completions():
    rig = Rig()
    for number in range(10):
        rig.submit()
        granted = rig.lease_one()
        assert rig.stats().service_seconds is None, number
        rig.wait(3)
        rig.ack(granted)
    assert rig.stats().service_seconds == 3


def test_the_service_time_outlives_a_restart():
    rig = Rig()
    for _ in range(12):
        rig.submit()
        granted = rig.lease_one()
        rig.wait(3)
        rig.ack(granted)
    rig.wait(2)
    rig.restart()
    assert rig.stats().service_seconds == 3
    assert rig.stats().completed_total == 12


def test_service_times_are_not_written_with_every_ack():
    rig = Rig()
    rig.submit(50)
    written = 0
    for lease in rig.lease("w1", slots=50):
        rig.ack(lease)
        written += bool(rig.last.changes.service_times)
    assert written == 0
    rig.wait(2)
    assert len(rig.tables.service_times[NAMESPACE, CAPABILITY]) == 50


def test_the_largest_hundredth_is_clipped():
    times = ServiceTimes([1.0] * 198 + [1_000.0, 50_000.0])
    assert times.mean() == 1.0
    assert ServiceTimes([1.0] * 9).mean() is None
    assert ServiceTimes([2.0] * 9 + [90.0]).mean() == 2.0


@given(st.lists(st.floats(0, 1e5), min_size=10, max_size=400))
def test_the_clipped_mean_lies_within_the_last_200_values(seconds):
    window = seconds[-200:]
    mean = ServiceTimes(seconds).mean()
    assert min(window) * 0.999 - 1e-9 <= mean <= max(window) * 1.001 + 1e-9
    assert mean <= sum(window) / len(window) * 1.001 + 1e-9


def test_the_drain_rate_is_that_of_the_last_minute():
    rate = DrainRate()
    assert rate.per_second(0) is None
    for second in range(200):
        rate.add(second)
        rate.add(second + 0.5)
    assert rate.per_second(200) == 118 / 60
    assert rate.per_second(230) == 58 / 60
    assert rate.per_second(260) is None


@given(st.lists(st.floats(0, 300), min_size=1, max_size=100))
def test_the_drain_rate_counts_what_a_naive_count_does(moments):
    moments.sort()
    rate = DrainRate()
    for moment in moments:
        rate.add(moment)
    now = moments[-1]
    recent = sum(int(moment) > int(now) - 60 for moment in moments)
    expected = recent / max(1.0, min(60.0, now - moments[0])) if recent >= 10 else None
    assert rate.per_second(now) == expected


def test_counts_survive_a_busy_day_of_everything():
    rig = Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0.5), seed=3)
    dice = random.Random(3)
    held = []
    for _ in range(600):
        rig.freeze(dice.random())
        held += rig.lease(f"w{dice.randrange(5)}", slots=500, free=dice.randrange(1, 4))
        rig.submit(dice.randrange(1, 4), delay_seconds=dice.choice([0, 0, 5]))
        if held:
            settle = dice.choice([Rig.ack, Rig.nack, Rig.release])
            settle(rig, held.pop(dice.randrange(len(held))))
    states = [row.state.value for row in rig.core.state.tasks.values()]
    stats = rig.stats()
    assert (stats.ready, stats.delayed, stats.leased) == tuple(
        states.count(state) for state in ("ready", "delayed", "leased")
    )
