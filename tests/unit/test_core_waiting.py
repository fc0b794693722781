"""Parked lease calls: who gets the next task, and what a call gets back."""

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.leases import WorkerState
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c


def test_a_call_without_a_wait_is_answered_at_once():
    rig = Rig()
    call = rig.park(wait=0.0)
    assert rig.got(call) == []


def test_a_waiting_call_gets_the_task_in_the_step_that_accepts_it():
    rig = Rig()
    call = rig.park()
    assert rig.got(call) is None
    task = rig.submit()
    assert rig.got(call) == [task.id]


def test_a_waiting_call_ends_empty_when_its_wait_is_over():
    rig = Rig()
    call = rig.park(wait=30.0)
    rig.wait(29.9)
    assert rig.got(call) is None
    rig.wait(0.1)
    assert rig.got(call) == []
    task = rig.submit()
    assert rig.row(task.id).lease is None


def test_a_task_goes_to_the_waiting_worker_that_holds_the_most():
    rig = Rig()
    rig.submit(3)
    rig.lease("two", slots=4, free=2)
    rig.lease("one", slots=4, free=1)
    none, one, two = rig.park("none", slots=4), rig.park("one", slots=4, free=3), rig.park("two", slots=4, free=2)
    task = rig.submit()
    assert (rig.got(none), rig.got(one), rig.got(two)) == (None, None, [task.id])


def test_a_worker_without_a_free_slot_is_passed_over():
    rig = Rig()
    rig.submit(2)
    rig.lease("full", slots=2)
    full, empty = rig.park("full", slots=2, free=1), rig.park("empty")
    task = rig.submit()
    assert (rig.got(full), rig.got(empty)) == (None, [task.id])


def test_a_worker_that_is_full_in_the_brokers_eyes_gets_work_once_a_lease_of_its_ends():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1")
    waiting = rig.park("w1")
    task = rig.submit()
    assert rig.got(waiting) is None
    rig.ack(granted)
    assert rig.got(waiting) == [task.id]


def test_a_tie_goes_to_the_most_recent_end_of_a_lease():
    rig = Rig()
    for name in ("old", "recent"):
        rig.submit()
        rig.ack(rig.lease_one(name))
        rig.wait(1)
    recent, old, new = rig.park("recent"), rig.park("old"), rig.park("new")
    task = rig.submit()
    assert rig.got(recent) == [task.id]
    assert rig.got(old) is None
    assert rig.got(new) is None


def test_little_work_stays_on_few_workers():
    """Fifty workers and work for five: all but a handful stay idle, so that scale-in can begin."""
    rig = Rig()
    calls = {f"w{n}": rig.park(f"w{n}", wait=10_000.0) for n in range(50)}
    served = set()
    for _ in range(200):
        task = rig.submit()
        name = next(name for name, call in calls.items() if rig.got(call) == [task.id])
        served.add(name)
        calls[name] = rig.park(name, wait=10_000.0)
        row = rig.row(task.id)
        rig.wait(1)
        rig.do(c.Ack(NAMESPACE, f"{row.id}:{row.epoch}:{row.secret}"))
    assert len(served) <= 5


def test_a_batch_fills_the_fullest_worker_first_and_answers_each_call_once():
    rig = Rig()
    rig.submit()
    rig.lease("fuller", slots=4, free=1)
    fuller, other = rig.park("fuller", slots=4, free=3), rig.park("other", slots=4)
    tasks = rig.submit(5)
    assert rig.got(fuller) == [task.id for task in tasks[:3]]
    assert rig.got(other) == [task.id for task in tasks[3:]]


def test_no_task_waits_beside_a_worker_that_could_take_it():
    rig = Rig(CapabilityConfig(name="llm"), CapabilityConfig(name="code"))
    both = rig.park("both", "llm", "code")
    code = rig.park("code", "code")
    rig.submit(1, "code")
    rig.submit(1, "llm")
    assert rig.got(both) is not None or rig.got(code) is not None
    rig.submit(1, "llm")
    assert rig.stats("code").ready == 0
    assert rig.stats("llm").ready + rig.stats("llm").leased == 2
    assert {rig.got(both) is None, rig.got(code) is None} == {False} or rig.stats("llm").ready == 2


def test_of_another_queue_a_worker_takes_only_what_no_better_packed_worker_waits_for():
    rig = Rig(CapabilityConfig(name="llm"), CapabilityConfig(name="code"))
    rig.submit(2, "code")
    rig.lease("coder", "code", slots=4, free=2)
    both = rig.park("both", "llm", "code", slots=4)
    coder = rig.park("coder", "code", slots=4, free=2)
    new = tuple(c.NewTask(name) for name in ("llm", "code"))
    (outcomes,) = rig.run([c.Enqueue(NAMESPACE, new)])
    assert rig.got(both) == [outcomes[0].id]
    assert rig.got(coder) == [outcomes[1].id]


def test_a_newer_call_of_a_worker_ends_the_older_one_empty():
    rig = Rig()
    older, newer = rig.park(), rig.park()
    assert rig.got(older) == []
    task = rig.submit()
    assert rig.got(newer) == [task.id]


def test_an_abandoned_call_gets_nothing():
    rig = Rig()
    gone, waiting = rig.park("w1"), rig.park("w2")
    rig.do(c.Abandon(gone))
    task = rig.submit()
    assert rig.got(gone) is None
    assert rig.got(waiting) == [task.id]


def test_a_call_abandoned_in_the_step_that_brings_work_gets_none_of_it():
    rig = Rig()
    gone = rig.park("w1")
    rig.run([c.Enqueue(NAMESPACE, (c.NewTask(CAPABILITY),)), c.Abandon(gone)])
    assert rig.stats().ready == 1


def test_repeating_an_attempt_returns_its_leases_with_the_same_tokens():
    rig = Rig()
    rig.submit(5)
    first = rig.lease("w1", slots=4, free=2, attempt="a")
    again = rig.lease("w1", slots=4, free=2, attempt="a")
    assert [lease.token for lease in again] == [lease.token for lease in first]
    assert rig.stats().leased == 2


def test_repeating_an_attempt_leaves_out_what_is_no_longer_held():
    rig = Rig()
    rig.submit(2)
    first = rig.lease("w1", slots=2, attempt="a")
    rig.ack(first[0])
    assert [lease.token for lease in rig.lease("w1", slots=2, attempt="a")] == [first[1].token]
    rig.ack(first[1])
    rig.submit()
    assert rig.lease("w1", slots=2, attempt="a") == []
    assert len(rig.lease("w1", slots=2, attempt="b")) == 1


def test_repeating_an_attempt_that_got_nothing_asks_anew():
    rig = Rig()
    assert rig.lease(attempt="a") == []
    rig.submit()
    assert len(rig.lease(attempt="a")) == 1


def test_a_repeat_is_no_evidence_against_the_leases_it_asks_for():
    rig = Rig()
    rig.submit()
    (granted,) = rig.lease("w1", attempt="a")
    for _ in range(4):
        rig.wait(5)
        (again,) = rig.lease("w1", attempt="a")
        assert again.token == granted.token


def test_a_draining_worker_keeps_its_leases_and_gets_no_more():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1", slots=2)
    waiting = rig.park("w1", slots=2, free=1)
    assert rig.beat("w1", granted.token, slots=2, draining=True).worker is WorkerState.DRAINING
    assert rig.got(waiting) == []
    rig.submit()
    refused = rig.park("w1", slots=2, free=1)
    assert rig.answers[refused].worker is WorkerState.DRAINING
    assert rig.got(refused) == []
    assert rig.ack(granted).ok


def test_a_worker_that_waits_for_a_capability_not_known_yet_gets_its_work_when_it_is():
    rig = Rig()
    waiting = rig.park("w1", "new")
    rig.configure(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="new"))
    task = rig.submit(1, "new")
    assert rig.got(waiting) == [task.id]


def test_a_worker_that_names_a_capability_twice_is_served_as_if_once():
    rig = Rig()
    waiting = rig.park("w1", CAPABILITY, CAPABILITY, slots=2)
    tasks = rig.submit(2)
    assert rig.got(waiting) == [task.id for task in tasks]


def test_a_worker_whose_slots_shrank_is_given_no_more_than_it_has():
    rig = Rig()
    waiting = rig.park("w1", slots=4)
    rig.beat("w1", slots=1)
    rig.submit(4)
    assert len(rig.got(waiting)) == 1


@pytest.mark.parametrize("workers", [1, 7])
def test_leftovers_of_answered_calls_do_not_pile_up(workers):
    rig = Rig(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="idle"))
    for number in range(2000):
        rig.park(f"w{number % workers}", CAPABILITY, "idle")
    assert len(rig.core.state.queues[NAMESPACE, "idle"].waiters) <= 64 + 5 * workers
    assert len(rig.core.state.calls) == workers


def test_a_worker_that_was_silent_for_long_and_holds_nothing_is_forgotten():
    rig = Rig()
    rig.beat("w1")
    rig.wait(100)
    assert rig.worker("w1") is not None
    rig.wait(40)
    assert rig.worker("w1") is None
    assert (NAMESPACE, "w1", "1") in rig.core.take_changed().workers


def test_a_silent_worker_that_still_waits_is_not_forgotten():
    rig = Rig()
    rig.park("w1", wait=600.0)
    rig.wait(500)
    assert rig.worker("w1").parked


def test_a_repeated_call_gets_its_leases_renewed():
    rig = Rig()
    task = rig.submit()
    first = rig.lease_one(attempt="a")
    rig.wait(29.0)

    again = rig.lease_one(attempt="a", held=[first.token])
    rig.wait(29.0)

    assert (again.token, again.expires_at) == (first.token, first.expires_at + 29.0)
    assert rig.row(task.id).lease is not None


def test_a_repeated_call_is_not_given_what_the_same_step_takes_back():
    rig = Rig(CapabilityConfig(name=CAPABILITY, attempt_timeout_seconds=15.0))
    task = rig.submit(ttl_seconds=8.0)
    rig.lease_one(attempt="a")
    rig.freeze(200.0)

    assert rig.lease(attempt="a") == []
    assert rig.record(task.id).state_at(rig.now) is TaskState.EXPIRED
