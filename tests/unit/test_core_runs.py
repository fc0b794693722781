"""Runs: one status for tasks that belong together, and caps that stop all of them."""

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig, check
from leadsman.wire.capabilities import CapabilityConfig, TenantFrom
from leadsman.wire.leases import LeaseStatus
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Accepted, Refused
from leadsman_broker.core.rows import Caps
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.usage import Usage

RUN = "crawl-1"


def put(rig: Rig, **caps):
    return rig.do(c.PutRun(NAMESPACE, RUN, Caps(**caps)))


def run_of(rig: Rig, run_id: str = RUN):
    return rig.store.run(NAMESPACE, run_id)


def state_of(rig: Rig, task) -> TaskState:
    return rig.record(task.id).state_at(rig.now)


def reason_of(rig: Rig, task) -> str | None:
    return rig.record(task.id).reason


def in_run(rig: Rig, count: int = 1, **fields):
    return rig.submit(count, run_id=RUN, **fields)


def follow(*capabilities: str, **fields) -> tuple[c.NewTask, ...]:
    return tuple(c.NewTask(capability, **fields) for capability in capabilities or (CAPABILITY,))


def test_a_run_is_created_with_its_first_task_and_completed_with_its_last():
    rig = Rig()
    in_run(rig, 2)
    assert (run_of(rig).state, run_of(rig).live) == (RunState.RUNNING, 2)
    first, second = rig.lease(slots=2)
    rig.ack(first)
    assert run_of(rig).state is RunState.RUNNING
    rig.nack(second, retry=False)
    row = run_of(rig)
    assert (row.state, row.completed, row.dead, row.live, row.ended_at) == (RunState.COMPLETED, 1, 1, 0, rig.now)
    assert rig.core.state.runs == {}


def test_a_run_that_gets_no_task_is_not_kept_in_memory_and_goes_when_its_retention_is_over():
    rig = Rig(settings=Settings(run_retention_seconds=1000.0))
    put(rig, tokens=5)
    assert (run_of(rig).state, rig.core.state.runs) == (RunState.RUNNING, {})
    rig.wait(900)
    put(rig, tokens=7)
    rig.restart()
    rig.wait(900)
    assert run_of(rig).caps.tokens == 7
    rig.wait(200)
    assert run_of(rig) is None
    check(rig.core)


def test_a_run_that_waited_for_its_first_task_has_its_caps_and_its_deadline_still():
    rig = Rig(settings=Settings(run_retention_seconds=1000.0))
    put(rig, tasks=1, seconds=5000.0)
    rig.wait(900)
    rig.restart()
    task = in_run(rig)
    rig.wait(4000)
    assert (run_of(rig).state, state_of(rig, task)) == (RunState.RUNNING, TaskState.READY)
    rig.wait(200)
    assert (run_of(rig).state, state_of(rig, task)) == (RunState.FAILED, TaskState.CANCELLED)
    check(rig.core)


def test_a_run_without_a_task_fails_when_its_time_is_over():
    rig = Rig()
    put(rig, seconds=60.0)
    rig.restart()
    rig.wait(61)
    assert (run_of(rig).state, rig.core.state.runs) == (RunState.FAILED, {})


def test_runs_without_a_task_of_an_older_program_are_let_go_of_at_a_start():
    rig = Rig(settings=Settings(run_retention_seconds=1000.0))
    put(rig)
    rig.tables.runs[NAMESPACE, RUN] = run_of(rig)._replace(purge_at=None)
    rig.restart()
    rig.wait(10)
    assert rig.core.state.runs == {}
    rig.wait(1050)
    assert run_of(rig) is None


def test_a_new_task_goes_on_with_a_completed_run():
    rig = Rig()
    in_run(rig)
    rig.ack(rig.lease_one())
    in_run(rig)
    assert (run_of(rig).state, run_of(rig).accepted, run_of(rig).ended_at) == (RunState.RUNNING, 2, None)
    rig.ack(rig.lease_one())
    assert run_of(rig).state is RunState.COMPLETED


def test_a_redriven_task_goes_on_with_its_run():
    rig = Rig()
    task = in_run(rig)
    rig.nack(rig.lease_one(), retry=False)
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, (task.id,)))
    assert (run_of(rig).state, run_of(rig).dead, run_of(rig).live) == (RunState.RUNNING, 0, 1)
    rig.ack(rig.lease_one())
    assert (run_of(rig).state, run_of(rig).completed) == (RunState.COMPLETED, 1)


def test_a_redriven_task_whose_run_is_forgotten_is_the_first_of_a_new_one():
    rules = CapabilityConfig(name=CAPABILITY, dead_retention_seconds=10_000.0)
    rig = Rig(rules, settings=Settings(run_retention_seconds=100.0))
    task = in_run(rig)
    rig.nack(rig.lease_one(), retry=False)
    rig.wait(200)
    assert run_of(rig) is None
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, (task.id,)))
    assert (run_of(rig).accepted, run_of(rig).dead, run_of(rig).live) == (1, 0, 1)
    rig.ack(rig.lease_one())
    assert (run_of(rig).state, run_of(rig).completed) == (RunState.COMPLETED, 1)


def test_a_run_created_before_its_tasks_waits_for_them():
    rig = Rig()
    assert put(rig, tokens=5).state is RunState.RUNNING
    rig.restart()
    in_run(rig)
    assert run_of(rig).caps == Caps(tokens=5)
    rig.ack(rig.lease_one())
    assert run_of(rig).state is RunState.COMPLETED


@pytest.mark.parametrize(
    ("caps", "usage", "words"),
    [
        ({"tokens": 100}, Usage(101, 0), "used 101 tokens of 100"),
        ({"cost_micros": 2_500_000}, Usage(0, 2_500_001), "used 2.5 of 2.5 in money"),
    ],
)
def test_a_run_over_its_cap_fails_with_the_numbers_and_everything_of_it_stops(caps, usage, words):
    rig = Rig()
    put(rig, **caps)
    running, queued, later = in_run(rig), in_run(rig), in_run(rig, delay_seconds=60)
    other = rig.submit()
    granted = rig.lease_one("w1")
    assert granted.task_id == running.id
    exact = Usage(caps.get("tokens", 0), caps.get("cost_micros", 0))
    rig.beat("w1", granted.token, usage={granted.token: exact})
    assert run_of(rig).state is RunState.RUNNING

    rig.beat("w1", granted.token, usage={granted.token: usage})
    told = rig.beat("w1", granted.token)

    row = run_of(rig)
    assert (row.state, row.reason) == (RunState.FAILED, words)
    assert [state_of(rig, task) for task in (queued, later)] == [TaskState.CANCELLED] * 2
    assert reason_of(rig, queued) == "RunStopped"
    assert told.leases[0].status is LeaseStatus.CANCELLED
    assert state_of(rig, other) is TaskState.READY
    rig.nack(granted)
    assert state_of(rig, running) is TaskState.CANCELLED
    assert (run_of(rig).live, run_of(rig).cancelled, run_of(rig).state) == (0, 3, RunState.FAILED)
    check(rig.core)


def test_a_run_that_takes_too_long_fails_by_the_clock_alone():
    rig = Rig()
    put(rig, seconds=30)
    task = in_run(rig, delay_seconds=100)
    rig.wait(29.9)
    assert run_of(rig).state is RunState.RUNNING
    rig.wait(0.2)
    assert (run_of(rig).state, run_of(rig).reason) == (RunState.FAILED, "took longer than 30 s")
    assert state_of(rig, task) is TaskState.CANCELLED


@pytest.mark.parametrize("caps", [{"seconds": 60.0}, {"tasks": 1}])
def test_a_completed_run_without_room_for_more_stays_completed(caps):
    rig = Rig()
    put(rig, **caps)
    in_run(rig)
    rig.ack(rig.lease_one())
    rig.wait(100)
    refused = in_run(rig)
    assert isinstance(refused, Refused)
    assert refused.code == "run_ended"
    assert run_of(rig).state is RunState.COMPLETED


def test_one_task_too_many_fails_the_run():
    rig = Rig()
    put(rig, tasks=2)
    kept = in_run(rig, 2)
    refused = in_run(rig)
    assert refused == Refused("run_ended", f"run {RUN} is failed: more than 2 tasks; use another run id")
    assert [state_of(rig, task) for task in kept] == [TaskState.CANCELLED] * 2


def test_a_task_refused_for_depth_brings_no_run_over_its_cap():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=0))
    put(rig, tasks=1)
    in_run(rig)
    in_run(rig)
    assert run_of(rig).state is RunState.RUNNING


@pytest.mark.parametrize("how", ["cancel", "fail"])
def test_a_stopped_run_takes_no_task_and_no_redrive(how):
    rig = Rig()
    dead = in_run(rig)
    rig.nack(rig.lease_one(), retry=False)
    in_run(rig, delay_seconds=5)
    rig.do(c.CancelRun(NAMESPACE, RUN)) if how == "cancel" else put(rig, seconds=-1)
    rig.run()
    assert isinstance(in_run(rig), Refused)
    (redriven,) = rig.do(c.Redrive(NAMESPACE, CAPABILITY, (dead.id,)))
    assert (redriven.redriven, redriven.code) == (False, "run_ended")
    assert put(rig).changed is False


def test_cancelling_a_run_cancels_its_tasks_and_repeating_it_changes_nothing():
    rig = Rig()
    task = in_run(rig)
    assert rig.do(c.CancelRun(NAMESPACE, RUN)).changed
    assert state_of(rig, task) is TaskState.CANCELLED
    again = rig.do(c.CancelRun(NAMESPACE, RUN))
    assert (again.state, again.changed) == (RunState.CANCELLED, False)
    assert rig.do(c.CancelRun(NAMESPACE, "nobody")).state is None


def test_an_ack_that_comes_before_the_worker_is_told_still_completes():
    rig = Rig()
    task = in_run(rig)
    granted = rig.lease_one()
    rig.do(c.CancelRun(NAMESPACE, RUN))
    assert rig.ack(granted).ok
    assert state_of(rig, task) is TaskState.COMPLETED
    assert (run_of(rig).state, run_of(rig).completed) == (RunState.CANCELLED, 1)


def test_a_large_run_is_stopped_in_portions_and_nothing_of_it_is_leased_meanwhile():
    rig = Rig(settings=Settings(timers_per_step=10, reclaim_jitter=0.0, backoff_jitter=0.0))
    tasks = in_run(rig, 25)
    rig.park("w1")
    other = rig.submit(priority=0)
    rig.do(c.CancelRun(NAMESPACE, RUN))
    assert rig.core.next_deadline() <= rig.now
    while rig.core.state.stopping:
        rig.run()
    ended = [state_of(rig, task) for task in tasks]
    assert ended.count(TaskState.CANCELLED) == 24  # one was leased before
    assert rig.lease_one("w2").task_id == other.id
    check(rig.core)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_waiting_worker_does_not_make_one_step_end_them_all(stopped):
    rig = Rig(settings=Settings(timers_per_step=10, reclaim_jitter=0.0, backoff_jitter=0.0))
    in_run(rig, 50, ttl_seconds=None if stopped else 5.0)
    other = rig.submit()
    if stopped:
        rig.run([c.CancelRun(NAMESPACE, RUN)])
    rig.freeze(6)
    call = rig.park("w1")
    assert len(rig.last.changes.ended) <= 20  # by the clock, and for the worker
    while rig.got(call) is None:
        assert rig.core.next_deadline() <= rig.now
        rig.run()
        assert len(rig.last.changes.ended) <= 20
        check(rig.core)
    assert rig.got(call) == [other.id]


def test_a_stop_that_a_restart_interrupts_goes_on():
    rig = Rig(settings=Settings(timers_per_step=10, reclaim_jitter=0.0, backoff_jitter=0.0))
    in_run(rig, 25)
    rig.do(c.CancelRun(NAMESPACE, RUN))
    assert run_of(rig).live == 15
    rig.restart()
    while rig.core.state.stopping:
        rig.run()
    assert (run_of(rig).live, run_of(rig).cancelled) == (0, 25)


def test_follow_up_tasks_join_the_run_before_their_parent_ends():
    rig = Rig()
    in_run(rig)
    settled = rig.do(c.Ack(NAMESPACE, rig.lease_one().token, tasks=follow(CAPABILITY, CAPABILITY)))
    assert [type(outcome) for outcome in settled.tasks] == [Accepted, Accepted]
    row = run_of(rig)
    assert (row.state, row.accepted, row.completed, row.live) == (RunState.RUNNING, 3, 1, 2)
    assert rig.lease_one().run_id == RUN


def test_follow_up_tasks_are_for_the_tenant_of_their_parent():
    rig = Rig(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="llm", tenant_from=TenantFrom.IDENTITY))
    in_run(rig, tenant="acme")
    tasks = (*follow(), *follow(tenant="zoo"), *follow("llm", tenant="somebody"))
    rig.do(c.Ack(NAMESPACE, rig.lease_one().token, tasks=tasks))
    assert [row.tenant for row in rig.core.state.tasks.values()] == ["acme", "zoo", "acme"]


def test_follow_up_tasks_are_not_refused_for_depth_and_that_is_counted():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=0))
    rig.submit()
    granted = rig.lease_one()
    rig.submit()
    settled = rig.do(c.Ack(NAMESPACE, granted.token, tasks=follow()))
    assert isinstance(settled.tasks[0], Accepted)
    assert rig.core.totals((NAMESPACE, CAPABILITY)).over_limit == 1


def test_the_key_of_a_follow_up_is_known_by_the_tenant_it_has_from_its_parent():
    rig = Rig()
    known = rig.submit(tenant="a", idempotency_key="k", delay_seconds=60.0)
    rig.submit(tenant="a")
    settled = rig.do(c.Ack(NAMESPACE, rig.lease_one().token, tasks=follow(idempotency_key="k")))
    assert [(task.id, task.duplicate) for task in settled.tasks] == [(known.id, True)]


def test_a_repeated_ack_adds_no_second_follow_up_and_gets_the_answer_of_the_first():
    rig = Rig()
    put(rig, tasks=2)
    in_run(rig)
    known = rig.submit(idempotency_key="k", delay_seconds=60.0)
    tasks = follow() + follow() + follow(idempotency_key="k", run_id="other")
    command = c.Ack(NAMESPACE, rig.lease_one().token, tasks=tasks)
    first, second, third = rig.run([command, command, command])
    rig.restart()
    again = rig.do(command)
    assert [type(one) for one in first.tasks] == [Accepted, Refused, Accepted]
    assert (first.tasks[1].code, first.tasks[2].id, first.tasks[2].duplicate) == ("run_ended", known.id, True)
    assert first == second == third == again
    assert run_of(rig).accepted == 2


TWO_OF_A_KEY = (
    *follow(idempotency_key="k", fingerprint=b"1"),
    *follow(idempotency_key="k", fingerprint=b"2"),
)


@pytest.mark.parametrize("wrong", [follow("nowhere"), follow(payload=b"x" * 300_000), TWO_OF_A_KEY])
def test_an_ack_with_a_follow_up_that_cannot_be_is_refused_whole_and_the_lease_holds(wrong):
    rig = Rig()
    task = in_run(rig)
    granted = rig.lease_one()
    settled = rig.do(c.Ack(NAMESPACE, granted.token, tasks=(*follow(), *wrong)))
    assert (settled.ok, settled.code) == (False, "follow_up_refused")
    assert (state_of(rig, task), run_of(rig).accepted) == (TaskState.LEASED, 1)
    assert rig.ack(granted).ok


def test_a_follow_up_beyond_the_cap_fails_the_run_and_its_parent_is_done_all_the_same():
    rig = Rig()
    put(rig, tasks=1)
    task = in_run(rig)
    settled = rig.do(c.Ack(NAMESPACE, rig.lease_one().token, tasks=follow()))
    assert (settled.ok, settled.tasks[0].code) == (True, "run_ended")
    assert (state_of(rig, task), run_of(rig).state) == (TaskState.COMPLETED, RunState.FAILED)


def test_what_a_run_used_includes_superseded_attempts_and_reports_after_its_end():
    rig = Rig()
    in_run(rig)
    lost = rig.lease_one("w1")
    rig.wait(lost.lease_seconds + 1)
    won = rig.lease_one("w2")
    rig.do(c.Ack(NAMESPACE, won.token, usage=Usage(10, 100)))
    assert run_of(rig).state is RunState.COMPLETED
    rig.beat("w1", lost.token, usage={lost.token: Usage(7, 70)})
    row = run_of(rig)
    assert (row.state, row.usage, row.lost_usage) == (RunState.COMPLETED, Usage(17, 170), Usage(7, 70))
    assert rig.core.state.runs == {}


def test_a_late_ack_takes_its_usage_out_of_what_was_lost():
    rig = Rig()
    in_run(rig)
    granted = rig.lease_one()
    rig.beat("w1", granted.token, usage={granted.token: Usage(5, 5)})
    rig.wait(granted.lease_seconds + 1)
    assert run_of(rig).lost_usage == Usage(5, 5)
    rig.ack(granted)
    assert (run_of(rig).usage, run_of(rig).lost_usage) == (Usage(5, 5), Usage())


def test_a_run_goes_when_its_retention_is_over():
    rig = Rig(settings=Settings(run_retention_seconds=1000.0, reclaim_jitter=0.0, backoff_jitter=0.0))
    in_run(rig)
    rig.ack(rig.lease_one())
    rig.wait(900)
    assert run_of(rig) is not None
    rig.wait(200)
    assert run_of(rig) is None


def test_tasks_without_a_run_know_nothing_of_runs():
    rig = Rig()
    rig.submit()
    rig.ack(rig.lease_one())
    assert rig.core.state.runs == {}
    assert rig.tables.runs == {}
