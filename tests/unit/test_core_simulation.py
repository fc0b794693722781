"""Thousands of lives of a broker, each checked after every step: see `core_simulation`."""

import pytest

from core_simulation import Schedule, replay, run, shrink
from leadsman.wire.leases import WorkerState
from leadsman_broker.core import commands as c
from leadsman_broker.core import leases, remembering, settlements
from leadsman_broker.core.core import RULES
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.results import Paused
from leadsman_broker.core.rows import PauseRow
from leadsman_broker.core.workers import WorkerRow

SHORT, LONG, CHUNKS = 700, 40_000, 4


def hold(first: int, count: int) -> None:
    for seed in range(first, first + count):
        failure = replay(Schedule(seed))
        if failure is not None:
            pytest.fail(str(shrink(failure)))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_invariant_holds_in_every_schedule(chunk):
    hold(chunk * SHORT // CHUNKS, SHORT // CHUNKS)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.long_only
def test_every_invariant_holds_in_very_many_schedules():
    hold(SHORT, LONG)


def first_failure(most: int = 150):
    for seed in range(most):
        failure = replay(Schedule(seed))
        if failure is not None:
            return failure
    raise AssertionError("the simulation does not see this defect")


def do_nothing(*_: object) -> None:
    """Stand in for what is left out."""


def forget_the_key(monkeypatch):
    monkeypatch.setattr("leadsman_broker.core.admission.known", do_nothing)


def accept_the_token_of_an_older_delivery(monkeypatch):
    found = settlements._find

    def find(state, namespace, text, op):
        task_id, _, _ = text.partition(":")
        row = next((row for row in state.tasks.values() if row.id == task_id and row.lease is not None), None)
        return row if row is not None else found(state, namespace, text, op)

    monkeypatch.setattr(settlements, "_find", find)


def reclaim_before_the_expiry(monkeypatch):
    monkeypatch.setattr(leases, "renew", do_nothing)
    monkeypatch.setattr("leadsman_broker.core.renewals.renew", do_nothing)
    monkeypatch.setattr("leadsman_broker.core.restoring.extend", do_nothing)


def forget_to_count_a_queued_task(monkeypatch):
    def add_returned(self, row, _tasks):
        Queue.add_fresh(self, row)
        if row.failures:
            self.depth_by_tenant[row.tenant] += 1

    monkeypatch.setattr(Queue, "add_returned", add_returned)


def forget_the_timers(monkeypatch):
    monkeypatch.setattr("leadsman_broker.core.timers.run", do_nothing)


def give_a_cordoned_worker_work(monkeypatch):
    monkeypatch.setattr("leadsman_broker.core.cordoning.end_unless_active", do_nothing)
    monkeypatch.setattr(
        WorkerRow, "state", property(lambda worker: WorkerState.FENCED if worker.fence else WorkerState.ACTIVE)
    )


def lease_from_a_paused_queue(monkeypatch):
    monkeypatch.setattr("leadsman_broker.core.pausing._put", do_nothing)
    monkeypatch.setitem(RULES, c.Pause, note_a_pause_only)


def note_a_pause_only(state, command):
    row = PauseRow(command.namespace, command.capability, state.now, "")
    state.out.pauses[command.namespace, command.capability] = row
    return Paused(row, changed=True)


def keep_the_last_value(monkeypatch):
    def once(state, command):
        state.loaded.once.clear()
        return remembering.once(state, command)

    monkeypatch.setitem(RULES, c.Once, once)


def drop_what_was_started(monkeypatch):
    monkeypatch.setattr("leadsman_broker.core.sheddable._counts", lambda row: row.lease is None)


@pytest.mark.parametrize(
    "plant",
    [give_a_cordoned_worker_work, lease_from_a_paused_queue, keep_the_last_value, drop_what_was_started],
)
def test_a_planted_defect_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert first_failure().what


@pytest.mark.parametrize(
    "plant",
    [
        forget_the_key,
        accept_the_token_of_an_older_delivery,
        reclaim_before_the_expiry,
        forget_to_count_a_queued_task,
        forget_the_timers,
    ],
)
def test_a_planted_defect_is_found_shrunk_and_can_be_replayed(plant, monkeypatch):
    plant(monkeypatch)
    failure = first_failure()

    small = shrink(failure, most=80)

    assert len(small.schedule.steps) <= 20
    assert replay(small.schedule).what == small.what
    assert f"--seed {small.schedule.seed} --steps " in str(small)


def test_a_schedule_is_the_same_every_time():
    first, second = (run(Schedule(3)).trace for _ in range(2))
    assert first == second != []
