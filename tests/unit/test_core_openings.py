"""The age of what a ceiling or a cap held back begins when it could be leased, also after a restart."""

import pytest

from core_rig import CAPABILITY, Rig
from leadsman.wire.capabilities import CapabilityConfig, OverCap
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core.commands import Sweep
from leadsman_broker.core.openings import APART_SECONDS

CEILING = {"max_in_flight": 1}
CAP = {"max_slots": 4, "tenant_share_percent": 25}
blocked_by = pytest.mark.parametrize("fields", [CEILING, CAP], ids=["ceiling", "cap"])
then = pytest.mark.parametrize("then", [Rig.wait, Rig.restart])


def rules(**fields) -> CapabilityConfig:
    return CapabilityConfig(name=CAPABILITY, **fields)


def held_back(fields, count=2):
    """Return a queue whose tasks have waited a thousand seconds for the one lease that there may be."""
    rig = Rig(rules(lease_seconds=3600, **fields))
    rig.submit(count, tenant="a")
    held = rig.lease_one()
    rig.wait(1000)
    return rig, held


@blocked_by
@then
def test_the_age_begins_when_a_lease_ends(fields, then):
    rig, held = held_back(fields)
    assert rig.stats().oldest_age_seconds is None
    rig.ack(held)
    then(rig, 7.0)
    assert rig.stats().oldest_age_seconds == 7


@blocked_by
@then
def test_the_age_begins_when_the_rules_allow_more(fields, then):
    rig, _ = held_back(fields)
    rig.configure(rules(lease_seconds=3600))
    then(rig, 7.0)
    assert rig.stats().oldest_age_seconds == 7


@then
def test_the_age_begins_when_a_tenant_may_use_what_is_idle(then):
    rig, _ = held_back(CAP)
    rig.configure(rules(lease_seconds=3600, over_cap=OverCap.USE_IDLE, **CAP))
    then(rig, 7.0)
    assert rig.stats().oldest_age_seconds == 7


@then
def test_each_class_of_a_tenant_has_its_age(then):
    rig, held = held_back(CAP, count=1)
    rig.submit(tenant="a", task_class=TaskClass.INTERACTIVE)
    rig.ack(held)
    then(rig, 7.0)
    assert rig.stats().oldest_age_seconds == 7
    held = rig.lease_one()
    rig.submit(tenant="a")
    rig.wait(50)
    rig.ack(held)
    then(rig, 3.0)
    assert rig.stats().oldest_age_seconds == 3


def test_a_tenant_that_may_use_what_is_idle_has_waited_since_its_task_came():
    rig = Rig(rules(lease_seconds=3600, over_cap=OverCap.USE_IDLE, **CAP))
    rig.submit(2, tenant="a")
    held = rig.lease_one()
    rig.wait(100)
    rig.ack(held)
    assert rig.stats().oldest_age_seconds == 100


@blocked_by
def test_what_is_taken_up_in_the_same_step_writes_nothing(fields):
    rig, held = held_back(fields, count=3)
    call = rig.park("w2")
    rig.ack(held)
    assert rig.got(call)
    assert rig.tables.openings == {}


@blocked_by
def test_a_place_that_opens_with_every_lease_is_written_every_few_seconds(fields):
    rig, held = held_back(fields, count=200)
    written = 0
    for _ in range(150):
        rig.ack(held)
        written += len(rig.last.changes.openings)
        rig.wait(0.05)
        held = rig.lease_one()
        rig.wait(0.05)
    rig.ack(held)
    assert written == 3, "at once, and after five and ten seconds"

    rig.restart()
    assert 0 <= rig.stats().oldest_age_seconds < APART_SECONDS


def test_a_tenant_behind_the_ceiling_counts_from_the_end_of_both():
    rig = Rig(rules(lease_seconds=3600, max_in_flight=2, **CAP))
    rig.submit(2, tenant="a")
    rig.submit(2, tenant="b")
    first, second = rig.lease("w1", slots=2)
    rig.configure(rules(lease_seconds=3600, max_in_flight=1, **CAP))
    rig.wait(1000)
    rig.ack(first)
    rig.wait(100)
    assert rig.stats().oldest_age_seconds is None
    rig.ack(second)
    rig.restart(7.0)
    assert rig.stats().oldest_age_seconds == 7


def test_the_openings_of_tenants_go_after_a_day_and_that_of_the_queue_stays():
    rig, held = held_back({**CEILING, **CAP})
    rig.ack(held)
    assert len(rig.tables.openings) == 2
    rig.wait(86_000)
    assert len(rig.tables.openings) == 2
    rig.wait(4_100)
    assert [place[1] for place in rig.tables.openings] == [None]
    rig.restart()
    assert rig.stats().oldest_age_seconds == pytest.approx(90_100, abs=1)


def sweeps(rig, hours):
    """Let hours pass with a sweep after each; say how many of them wrote to let go of openings."""
    written = 0
    for _ in range(hours):
        rig.freeze(3600)
        rig.run([Sweep(before=0.0)])
        written += bool(rig.last.changes.openings_before)
    return written


@pytest.mark.parametrize("restart", [False, True])
def test_nothing_is_written_to_let_go_of_openings_while_none_is_old(restart):
    assert sweeps(Rig(rules(**CAP)), 30) == 0
    rig, held = held_back(CAP)
    rig.ack(held)
    assert [place[1] for place in rig.tables.openings] == ["a"]
    if restart:
        rig.restart()
    assert sweeps(rig, 23) == 0
    assert sweeps(rig, 30) == 1
    assert not rig.tables.openings
    rig.restart()
    assert sweeps(rig, 30) == 0
