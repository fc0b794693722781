"""What must stay cheap however much there is. Counted in operations and objects, never in seconds."""

import gc
import os
import sys

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.tasks import Lease, TaskRow

LEASES = 200_000 if os.environ.get("LEADSMAN_LONG") else 20_000


def deep(**fields) -> CapabilityConfig:
    return CapabilityConfig(name=CAPABILITY, max_depth=10_000_000, **fields)


@pytest.mark.long
def test_the_reaper_keeps_up_with_a_crash_of_a_whole_fleet():
    rig = Rig(deep(), settings=Settings())
    for number in range(LEASES // 1000):
        rig.submit(1000)
        rig.lease(f"w{number}", slots=1000)
    lost_at = rig.now
    rig.wait(29.9)
    assert rig.stats().leased == LEASES
    most = 0
    while (left := rig.stats().leased) and rig.now <= lost_at + 36.2:
        rig.freeze(0.1)
        while True:
            rig.run()
            most = max(most, left - (left := rig.stats().leased))
            if rig.core.next_deadline() > rig.now:
                break
    assert left == 0
    assert 0 < most <= rig.settings.timers_per_step
    assert rig.stats().ready == LEASES


def test_a_reaper_that_is_behind_catches_up_in_as_few_commits_as_its_bound_allows():
    rig = Rig(deep(), settings=Settings())
    rig.submit(5000)
    rig.lease("dead", slots=5000)
    rig.wait(29)
    for _ in range(3):  # below a quarter of the lease: slow, but no stall
        rig.freeze(7)
        commits = rig.commits
        rig.run()
    while rig.core.next_deadline() <= rig.now:
        rig.run()
    assert rig.stats().ready == 5000
    assert rig.commits - commits <= -(-5000 // rig.settings.timers_per_step) + 1


def calls_made(function) -> int:
    """Count Python calls, the measure of work that no machine changes."""
    count = 0

    def profile(_frame, event, _arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def lifecycle(rig: Rig) -> int:
    call = rig.call("w1")
    enqueue = c.Enqueue(NAMESPACE, (c.NewTask(CAPABILITY),))

    def run() -> None:
        rig.run([enqueue, call])
        (granted,) = rig.answers[call.call].leases
        rig.run([c.Ack(NAMESPACE, granted.token)])
        rig.core.queue_stats((NAMESPACE, CAPABILITY), rig.now)

    return calls_made(run)


def test_a_lifecycle_costs_the_same_with_many_tasks_ready_delayed_dead_and_done():
    rig = Rig(deep())
    rig.submit()
    rig.ack(rig.lease_one("w1"))
    small = lifecycle(rig)
    for _ in range(10):
        rig.submit(1000, priority=3)
        rig.submit(1000, delay_seconds=3600)
    for lease in rig.lease("w2", slots=500):
        rig.nack(lease, retry=False)
    assert lifecycle(rig) <= small * 1.2 + 20


def test_tasks_that_end_are_freed_without_the_cyclic_collector():
    rig = Rig(deep())
    gc.collect()
    gc.disable()
    try:
        rig.submit(500, delay_seconds=1)
        rig.submit(500)
        rig.wait(1)
        held = rig.lease("w1", slots=700)
        for number, lease in enumerate(held):
            (rig.ack, rig.nack, rig.release)[number % 3](lease)
        for _ in range(8):
            rig.wait(60)
            for lease in rig.lease("w2", slots=1000):
                rig.ack(lease)
        assert not rig.core.state.tasks
        rig.last = None
        rows = [found for found in gc.get_objects() if isinstance(found, TaskRow | Lease)]
        assert rows == []
    finally:
        gc.enable()


def test_a_live_task_refers_to_no_other_task_and_none_of_its_own_holders():
    rig = Rig(deep())
    rig.submit(3)
    rig.lease("w1", slots=2)
    for row in rig.core.state.tasks.values():
        reachable = gc.get_referents(row, row.queue, *([row.lease, row.lease.worker] if row.lease else []))
        assert not any(isinstance(found, TaskRow) for found in reachable)
