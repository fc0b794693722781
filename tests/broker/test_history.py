"""What a task's history tells: every delivery and every end, in order."""

from core_rig import CAPABILITY, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.http.history import history_of
from leadsman_broker.store.sqlite import SqliteStore


def told(rig, task):
    """(event, epoch, worker, seconds since accept)."""
    record = rig.record(task.id)
    entries = history_of(record)
    start = record.live.accepted_at
    return [(entry.event, entry.epoch, entry.worker, entry.at - start) for entry in entries]


def quick(**fields):
    return Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0, **fields))


def test_a_task_that_goes_well_shows_its_delivery_and_its_end_and_wrote_no_history():
    rig = quick()
    task = rig.submit()
    rig.wait(2)
    granted = rig.lease_one()
    assert told(rig, task) == [("accepted", 0, None, 0), ("leased", 1, "w1.1", 2)]
    rig.wait(3)
    rig.ack(granted)
    assert told(rig, task) == [("accepted", 0, None, 0), ("leased", 1, "w1.1", 2), ("completed", 1, "w1.1", 5)]
    assert rig.record(task.id).history == ()


def test_every_way_to_lose_a_lease_shows_when_it_began(tmp_path):
    store = SqliteStore(tmp_path)
    rig = Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0), store=store)
    task = rig.submit()
    rig.nack(rig.lease_one("w1"))
    rig.wait(1)
    rig.release(rig.lease_one("w2"))
    rig.wait(1)
    rig.lease_one("w3")
    rig.wait(30)
    rig.lease_one("w4")
    rig.wait(3)
    rig.beat("w4")
    rig.beat("w4")
    late = rig.lease_one("w5")
    rig.wait(30)
    assert rig.ack(late).late
    assert told(rig, task) == [
        ("accepted", 0, None, 0),
        ("leased", 1, "w1.1", 0),
        ("failed", 1, "w1.1", 0),
        ("leased", 2, "w2.1", 1),
        ("released", 2, "w2.1", 1),
        ("leased", 3, "w3.1", 2),
        ("reclaimed", 3, "w3.1", 32),
        ("leased", 4, "w4.1", 32),
        ("undelivered", 4, "w4.1", 35),
        ("leased", 5, "w5.1", 35),
        ("reclaimed", 5, "w5.1", 65),
        ("completed", 5, None, 65),
    ]
    store.close()


def test_a_dead_task_shows_its_last_delivery_once():
    rig = quick()
    task = rig.submit()
    rig.nack(rig.lease_one(), retry=False)
    assert [entry[0] for entry in told(rig, task)] == ["accepted", "leased", "failed", "dead"]


def test_a_redriven_task_keeps_its_history():
    rig = quick()
    task = rig.submit()
    rig.nack(rig.lease_one(), retry=False)
    rig.do(c.Redrive("agents", CAPABILITY, (task.id,)))
    rig.ack(rig.lease_one())
    events = [entry[0] for entry in told(rig, task)]
    assert events == ["accepted", "leased", "failed", "dead", "redriven", "leased", "completed"]


def test_a_cancelled_attempt_shows_the_wish_between_its_delivery_and_its_end():
    rig = quick()
    task = rig.submit()
    granted = rig.lease_one()
    rig.wait(1)
    rig.do(c.Cancel("agents", task.id))
    rig.wait(1)
    rig.release(granted)
    events = [entry[0] for entry in told(rig, task)]
    assert events == ["accepted", "leased", "cancel_requested", "released", "cancelled"]


def test_a_long_history_is_bounded():
    rig = quick(max_attempts=100)
    task = rig.submit()
    for _ in range(99):
        rig.nack(rig.lease_one())
    assert len(told(rig, task)) == 1 + 2 * 50
