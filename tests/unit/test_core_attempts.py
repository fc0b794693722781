"""Counters, backoff, poison: what an attempt costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_rig import CAPABILITY, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.attempts import backoff_seconds
from leadsman_broker.core.settings import Settings

RULES = CapabilityConfig(name="llm", backoff_seconds=1, max_backoff_seconds=300)


@pytest.mark.parametrize(
    ("spent", "seconds"), [(1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, 300), (100, 300), (10**9, 300)]
)
def test_backoff_doubles_up_to_its_maximum(spent, seconds):
    assert backoff_seconds(RULES, spent, jitter=0.0) == seconds


@given(st.integers(1, 100), st.floats(0, 0.25), st.floats(0, 1e6))
def test_backoff_is_never_before_what_the_worker_asked_for(spent, jitter, at_least):
    plain = max(min(300, 2.0 ** (spent - 1)), at_least)
    assert plain <= backoff_seconds(RULES, spent, at_least=at_least, jitter=jitter) <= plain * 1.25


def test_retries_of_one_moment_are_spread():
    rig = Rig(settings=Settings())
    tasks = rig.submit(100)
    for lease in rig.lease(slots=100):
        rig.nack(lease, retry_after_seconds=100)
    due = sorted(rig.row(task.id).due_at - rig.now for task in tasks)
    assert due[0] >= 100
    assert due[-1] <= 125
    assert due[-1] - due[0] > 15


def test_failures_and_reclaims_together_spend_the_attempts():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=3, backoff_seconds=0))
    task = rig.submit()
    rig.nack(rig.lease_one())
    rig.lease_one()
    rig.wait(30)
    assert rig.nack(rig.lease_one()).state is TaskState.DEAD
    assert rig.record(task.id).reason == "MaxAttempts"
    assert rig.stats().dead == 1


def test_a_task_may_bring_its_own_number_of_attempts():
    rig = Rig()
    rig.submit(max_attempts=1)
    assert rig.nack(rig.lease_one()).state is TaskState.DEAD


def test_the_first_reclaim_requeues_at_once_and_later_ones_back_off():
    rig = Rig()
    rig.submit()
    rig.lease_one()
    rig.wait(30)
    rig.lease_one()
    rig.wait(30)
    assert rig.lease() == []
    rig.wait(2)
    assert rig.lease_one().attempt == 3


def test_three_lost_workers_in_a_row_make_a_task_poison():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100))
    task = rig.submit()
    for number in range(3):
        rig.lease_one(f"w{number}")
        rig.wait(60)
    record = rig.record(task.id)
    assert (record.ended.state, record.reason) == (TaskState.DEAD, "Poison")
    assert [entry.worker for entry in record.history[:3]] == ["w0.1", "w1.1", "w2.1"]


@pytest.mark.parametrize("sign", ["nack", "checkpoint", "checkpoint before a loss"])
def test_a_nack_or_a_new_checkpoint_in_between_starts_the_count_towards_poison_anew(sign):
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100, backoff_seconds=0))
    task = rig.submit()

    def lose(checkpoint: bytes | None = None) -> None:
        granted = rig.lease_one("w1")
        if checkpoint is not None:
            rig.beat("w1", granted.token, checkpoints={granted.token: checkpoint})
        rig.wait(30)

    for number in range(4):
        lose()
        if sign == "checkpoint before a loss":
            lose(b"%d" % number)
            continue
        lose()
        if sign == "nack":
            rig.nack(rig.lease_one("w1"))
        else:
            rig.release(rig.lease_one("w1"), checkpoint=b"%d" % number)
            rig.wait(1)
    while rig.row(task.id).poison < 2:
        lose()
    lose()
    assert rig.record(task.id).reason == "Poison"


def test_a_worker_that_was_draining_is_no_evidence_but_costs_an_attempt():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=4, backoff_seconds=0))
    task = rig.submit()
    for number in range(4):
        granted = rig.lease_one(f"w{number}")
        rig.beat(f"w{number}", granted.token, draining=True)
        rig.wait(30)
    assert rig.record(task.id).reason == "MaxAttempts"


def test_a_task_lost_with_others_is_suspect_and_goes_next_to_a_worker_that_holds_nothing():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100, backoff_seconds=0))
    first, second, third = rig.submit(3)
    rig.lease("dead", slots=2)
    rig.lease_one("busy", slots=3)
    rig.wait(20)
    rig.beat("busy", *[_token(rig, third.id)], slots=3)
    rig.wait(10)
    assert all(rig.row(task.id).suspect for task in (first, second))
    assert rig.lease("busy", slots=3, free=2) == []
    granted = rig.lease("fresh", slots=3)
    assert [lease.task_id for lease in granted] == [first.id]
    assert rig.lease("fresh", slots=3, free=2) == []


def test_ordinary_work_goes_past_suspects_to_busy_workers_and_never_beside_one():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100, backoff_seconds=0))
    busy = rig.submit().id
    held = rig.lease_one("busy", slots=8)
    suspects = [task.id for task in rig.submit(2)]
    rig.lease("dead", slots=2)
    rig.wait(20)
    rig.beat("busy", held.token, slots=8)
    rig.wait(10)
    others = [task.id for task in rig.submit(6)]

    got = rig.lease("busy", slots=8, free=3, held=[held.token])
    assert [lease.task_id for lease in got] == others[:3]
    assert rig.row(busy).lease is not None

    alone = rig.lease("fresh", slots=8)
    assert [lease.task_id for lease in alone] == suspects[:1]
    assert rig.lease("fresh", slots=8, free=7, held=[alone[0].token]) == []
    rig.restart()
    assert rig.lease("fresh", slots=8, free=7, held=[alone[0].token]) == []
    rig.ack(alone[0])
    assert [lease.task_id for lease in rig.lease("fresh", slots=8)] == suspects[1:]
    assert [lease.task_id for lease in rig.lease("another", slots=8)] == others[3:]


def _token(rig, task_id):
    row = rig.row(task_id)
    return f"{row.id}:{row.epoch}:{row.secret}"


def test_a_worker_heard_again_since_it_lost_a_lease_is_no_excuse_for_the_next():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100, backoff_seconds=0))
    rig.submit()
    rig.lease_one("w1")
    rig.wait(30)
    task = rig.row(rig.lease_one("w1").task_id)
    assert task.poison == 1
    rig.wait(30)
    assert (task.poison, task.suspect) == (2, False)


def test_the_last_of_the_leases_lost_with_a_worker_is_excused_like_the_first():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100), settings=Settings())
    tasks = rig.submit(5)
    rig.lease("dead", slots=5)
    rig.wait(40)
    assert [rig.row(task.id).poison for task in tasks] == [0] * 5
    assert [rig.row(task.id).reclaims for task in tasks] == [1] * 5


def test_a_task_that_kills_its_worker_dies_and_its_neighbours_do_not():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100, backoff_seconds=0))
    killer, *others = rig.submit(4)
    done = set()
    for number in range(200):
        name = f"w{number}"
        held = rig.lease(name, slots=4)
        if any(lease.task_id == killer.id for lease in held):
            rig.wait(30)
            continue
        for lease in held:
            rig.ack(lease)
            done.add(lease.task_id)
        rig.wait(1)
        if rig.row(killer.id) is None and len(done) == 3:
            break
    assert rig.record(killer.id).reason == "Poison"
    assert done == {task.id for task in others}
    assert all(rig.record(task.id).live.standing.poison == 0 for task in others)


def test_a_suspect_does_not_wait_for_ever_where_no_worker_is_ever_empty():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_attempts=100, backoff_seconds=0))
    first, _ = rig.submit(2)
    rig.lease("dead", slots=2)
    rig.submit()
    busy = rig.lease_one("busy", slots=2)
    for _ in range(9):
        rig.wait(10)
        rig.beat("busy", busy.token, slots=2)
        if (got := rig.lease("busy", slots=2, free=1, held=[busy.token])) and rig.now:
            break
    assert got[0].task_id == first.id
    assert not rig.row(first.id).suspect


def test_releases_are_free_but_a_hundred_apart_by_a_tenth_of_a_second_is_the_end():
    rig = Rig()
    task = rig.submit()
    started = rig.now
    for number in range(1, 101):
        answer = rig.release(rig.lease_one())
        if number == 1:
            assert answer.state is TaskState.READY
        elif number < 100:
            assert answer.state is TaskState.DELAYED
            assert rig.lease() == []
            rig.wait(0.1)
    assert answer.state is TaskState.DEAD
    assert rig.record(task.id).reason == "MaxReleases"
    assert rig.now - started >= 9.7


def test_the_history_is_bounded_and_keeps_the_newest():
    rig = Rig()
    task = rig.submit()
    for _ in range(99):
        rig.release(rig.lease_one())
        rig.wait(0.1)
    history = rig.record(task.id).history
    assert len(history) == 50
    assert [entry.number for entry in history] == list(range(50, 100))
