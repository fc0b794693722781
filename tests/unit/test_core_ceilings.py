"""Ceilings of a queue, its rate, the interactive reserve, and what the scaler is told of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rig import CAPABILITY, NAMESPACE, Rig, check
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import commands as c
from leadsman_broker.core.pace import Pace

INTERACTIVE = TaskClass.INTERACTIVE


def rules(**fields) -> CapabilityConfig:
    return CapabilityConfig(name=CAPABILITY, **fields)


def test_no_more_are_in_flight_than_the_ceiling_and_the_next_goes_out_when_one_ends():
    rig = Rig(rules(max_in_flight=3))
    rig.submit(9)
    first = rig.lease("w1", slots=9)
    assert len(first) == 3
    call = rig.park("w2", slots=9)
    assert rig.got(call) is None
    rig.ack(first[0])
    assert len(rig.got(call)) == 1
    check(rig.core)


def test_a_ceiling_that_is_raised_or_taken_away_lets_waiting_workers_have_work():
    rig = Rig(rules(max_in_flight=1))
    rig.submit(9)
    rig.lease("w1")
    call = rig.park("w2", slots=2)
    rig.configure(rules(max_in_flight=2))
    assert len(rig.got(call)) == 1
    call = rig.park("w3", slots=2)
    rig.configure(rules())
    assert len(rig.got(call)) == 2


def test_a_ceiling_lowered_below_what_is_in_flight_takes_nothing_away():
    rig = Rig(rules())
    rig.submit(9)
    held = rig.lease("w1", slots=4)
    rig.configure(rules(max_in_flight=2))
    for lease in held[:2]:
        assert rig.lease("w2") == []
        assert rig.ack(lease).ok
    assert rig.lease("w2") == []
    rig.ack(held[2])
    assert len(rig.lease("w2", slots=5)) == 1


def test_after_a_restart_the_ceiling_counts_the_leases_of_before():
    rig = Rig(rules(max_in_flight=3))
    rig.submit(9)
    rig.lease("w1", slots=2)
    rig.restart()
    assert len(rig.lease("w2", slots=9)) == 1
    check(rig.core)


def test_a_rate_spreads_leases_and_wakes_the_worker_that_waits():
    rig = Rig(rules(leases_per_minute=60))
    rig.submit(100)
    call = rig.park("w1", slots=100, wait=600.0)
    assert rig.got(call) is None, "the bucket starts empty"
    held: list[str] = []
    for _ in range(100):
        rig.wait(0.1)
        if call in rig.answers:
            held += [lease.token for lease in rig.answers[call].leases]
            call = rig.park("w1", slots=100, free=100 - len(held), wait=600.0, held=held)
    assert len(held) == 10
    assert rig.stats().blocked == {"RateLimit": 90}
    assert rig.stats().leasable == 90


def test_a_rate_ignores_how_often_the_broker_starts():
    rig = Rig(rules(leases_per_minute=120))
    rig.submit(200)
    began, given = rig.now, 0
    for number in range(40):
        rig.restart(0.25)
        given += len(rig.lease(f"w{number}", slots=50))
    assert given <= (rig.now - began) * 2 + 1


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6_000), st.lists(st.floats(0, 20), min_size=1, max_size=200))
def test_no_stretch_of_time_sees_more_leases_than_its_length_and_one_second_allow(per_minute, gaps):
    now, taken = 1.7e9, []
    pace = Pace(per_minute, now)
    for gap in gaps:
        now += gap
        while pace.opens_at() <= now and len(taken) < 20_000:
            pace.take(now)
            taken.append(now)
    gap = 60 / per_minute
    burst = max(1.0, gap) / gap
    for first in range(0, len(taken), 97):
        for last in (first, len(taken) - 1):
            seconds = taken[last] - taken[first]
            assert last - first + 1 <= seconds / gap + burst + 1e-3


def test_an_unchanged_rate_goes_on_over_a_push_of_the_rules():
    rig = Rig(rules(leases_per_minute=6))
    rig.submit(9)
    rig.wait(9)
    rig.configure(rules(leases_per_minute=6, max_attempts=7))
    assert rig.lease("w1") == []
    rig.wait(1.1)
    assert len(rig.lease("w1", slots=9)) == 1


def test_background_leaves_the_reserve_free_and_interactive_takes_it():
    rig = Rig(rules(interactive_reserve_percent=30))
    rig.submit(20)
    assert len(rig.lease("w1", slots=10)) == 7
    rig.submit(5, task_class=INTERACTIVE)
    leases = rig.lease("w1", slots=10, free=3, held=[])
    assert [lease.task_class for lease in leases] == [INTERACTIVE] * 3


def test_the_reserve_grows_and_shrinks_with_the_workers():
    rig = Rig(rules(interactive_reserve_percent=50))
    rig.submit(50)
    first = rig.lease("w1", slots=4)
    assert len(first) == 2
    call = rig.park("w2", slots=2, wait=600.0)
    assert len(rig.got(call)) == 1
    call = rig.park("w1", slots=4, free=1, wait=600.0, held=[lease.token for lease in first])
    assert rig.got(call) is None
    rig.beat("w4", slots=6)
    assert len(rig.got(call)) == 1
    assert rig.stats().blocked == {"InteractiveReserve": 44}
    check(rig.core)
    rig.do(c.Fence("op", ("w4",)))
    check(rig.core)


def test_a_worker_that_is_not_heard_of_offers_no_slots():
    rig = Rig(rules(interactive_reserve_percent=50))
    rig.beat("w1", slots=8)
    rig.beat("w2", slots=4)
    for _ in range(7):
        rig.wait(10)
        rig.beat("w2", slots=4)
    assert rig.core.state.fleet.slots((NAMESPACE, CAPABILITY)) == 4
    rig.beat("w1", slots=8)
    assert rig.core.state.fleet.slots((NAMESPACE, CAPABILITY)) == 12
    check(rig.core)


def test_one_background_task_may_always_run():
    rig = Rig(rules(interactive_reserve_percent=100))
    rig.submit(5)
    assert len(rig.lease("w1", slots=4)) == 1


def test_work_is_told_by_what_holds_it_back():
    rig = Rig(rules(max_slots=8, max_in_flight=6))
    rig.submit(5, tenant="a")
    rig.submit(4, tenant="b")
    rig.submit(3)
    stats = rig.stats()
    assert (stats.ready, stats.waiting, stats.leasable) == (12, 12, 6)
    assert stats.blocked == {"TenantCap": 5, "InFlightCeiling": 1}
    rig.lease("w1", slots=4, free=2)
    stats = rig.stats()
    assert (stats.waiting, stats.leasable) == (10, 4)


def test_with_use_idle_a_cap_takes_nothing_off_what_could_be_in_flight():
    rig = Rig(rules(max_slots=8, over_cap="UseIdle"))
    rig.submit(5, tenant="a")
    assert rig.stats().leasable == 5
    assert len(rig.lease("w1", slots=8)) == 5


@settings(max_examples=60, deadline=None)
@given(
    tasks=st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.booleans()), max_size=30),
    leased=st.integers(0, 12),
    ceiling=st.sampled_from([None, 1, 5, 20]),
    over_cap=st.sampled_from(["Wait", "UseIdle"]),
)
def test_leasable_is_what_unlimited_workers_would_get(tasks, leased, ceiling, over_cap):
    rig = Rig(rules(max_slots=10, max_in_flight=ceiling, over_cap=over_cap))
    for tenant, interactive in tasks:
        rig.submit(tenant=tenant, task_class=INTERACTIVE if interactive else TaskClass.BACKGROUND)
    rig.lease("w1", slots=50, free=max(1, leased))
    stats = rig.stats()
    blocked = sum(stats.blocked.values())
    assert stats.leasable + blocked == stats.ready
    assert len(rig.lease("w2", slots=99)) == stats.leasable


@pytest.mark.parametrize("cause", ["cap", "ceiling"])
def test_the_age_of_blocked_work_starts_when_it_is_unblocked(cause):
    fields = {"cap": {"max_slots": 4}, "ceiling": {"max_in_flight": 1}}[cause]
    rig = Rig(rules(lease_seconds=3600, **fields))
    rig.submit(3, tenant="acme")
    lease = rig.lease_one("w1")
    rig.wait(100)
    assert rig.stats().oldest_age_seconds is None
    rig.ack(lease)
    rig.wait(5)
    assert rig.stats().oldest_age_seconds == 5
    rig.configure(rules(lease_seconds=3600, max_attempts=9, **fields))
    assert rig.stats().oldest_age_seconds == 5, "a push of the same limits makes nothing younger"
