"""SIGTERM: an idle worker goes at once, a busy one in good order, and nothing is lost on the way."""

import signal

import pytest

from broker_process import eventually
from leadsman import TaskState


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_does_not_wait_for_its_long_poll(broker, start_worker, loop, number):
    worker = start_worker(broker.url, capabilities=["echo"], env={"LEADSMAN_LOOP": loop})
    worker.signal(number)
    assert worker.wait(20) == 0  # a call is parked for 25 s
    assert worker.records("drained")


def test_a_worker_without_a_broker_goes_at_once_too(start_worker):
    worker = start_worker("http://127.0.0.1:9", capabilities=["echo"], connect=False)
    assert worker.health("/livez") == 200
    worker.terminate()
    assert worker.wait() == 0


@pytest.mark.parametrize("name", ["default", "sync"])
def test_a_busy_worker_finishes_what_it_has_and_takes_nothing_new(
    broker, client, start_worker, journal, gate, name
):
    worker = start_worker(broker.url, capabilities=["gate"], slots=2)
    running = client.submit("gate", gate.path, name=name).id
    eventually(lambda: journal.entries("started", running), what="the handler at work")
    worker.terminate()
    eventually(lambda: worker.health("/readyz") == 503, what="a worker that is not ready")
    assert worker.health("/livez") == 200
    late = client.submit("gate", gate.path, name=name).id
    gate.open()
    assert worker.wait() == 0
    assert client.get(running).state is TaskState.COMPLETED
    view = client.get(late)
    assert (view.state, view.attempts.deliveries) == (TaskState.READY, 0)


def test_when_the_time_to_drain_is_over_tasks_go_back_with_the_state_that_they_saved_or_save_now(
    broker, client, start_worker, journal, gate
):
    worker = start_worker(broker.url, capabilities=["steps"], slots=2, drain_seconds=5.0)
    early = client.submit("steps", {"steps": 3, "hold_after": 2, "gate": gate.path}).id
    late = client.submit("steps", gate.path, name="save-on-cancel").id
    for task in (early, late):
        eventually(lambda task=task: journal.entries("holding", task), what="both handlers at work")
    worker.terminate()
    assert worker.wait() == 0
    for task in (early, late):
        attempts = client.get(task).attempts.model_dump()
        assert attempts == {"deliveries": 1, "failures": 0, "reclaims": 0, "releases": 1}
    gate.open()
    start_worker(broker.url, capabilities=["steps"])
    assert client.result(early, timeout_seconds=60) == {"steps": 3}
    assert journal.details("resumed", early) == [0, 2]
    assert client.result(late, timeout_seconds=60) == {"saved": "at the last moment"}


@pytest.mark.parametrize("name", ["default", "sync"])
def test_a_second_sigterm_cancels_at_once(broker, client, start_worker, journal, gate, name):
    worker = start_worker(broker.url, capabilities=["gate"], drain_seconds=3600)
    task = client.submit("gate", gate.path, name=name).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    worker.terminate()
    eventually(lambda: worker.records("draining"), what="a draining worker")
    worker.terminate()
    assert worker.wait() == 0
    assert journal.entries("cancelled", task)
    assert client.get(task).attempts.releases == 1


@pytest.mark.usefixtures("brief_leases")
def test_a_handler_that_does_not_end_is_left_to_reclaim_never_released_while_it_runs(
    broker, client, start_worker, journal, gate
):
    worker = start_worker(broker.url, capabilities=["gate"], drain_seconds=4.0)
    task = client.submit("gate", gate.path, name="stubborn").id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    worker.terminate()
    eventually(lambda: journal.entries("told", task), what="a handler that was told to stop")
    assert worker.wait() == 1
    assert worker.records("handlers did not end in time; their tasks are left to reclaim")
    gate.open()
    start_worker(broker.url, capabilities=["gate"])
    view = client.wait(task, timeout_seconds=60)
    assert (view.state, view.attempts.releases) == (TaskState.COMPLETED, 0)
    assert view.attempts.reclaims


def test_a_signal_reaches_a_worker_whose_loop_is_blocked(broker, client, start_worker, journal, gate):
    worker = start_worker(broker.url, capabilities=["gate", "echo"], slots=2)
    blocking = client.submit("gate", gate.path, name="blocking").id
    eventually(lambda: journal.entries("started", blocking), what="a blocked loop")
    worker.terminate()
    eventually(lambda: worker.health("/readyz") == 503, what="a worker that is not ready")
    gate.open()
    assert worker.wait() == 0
    assert client.get(blocking).state is TaskState.COMPLETED


def test_a_task_leased_in_the_very_moment_of_the_signal_is_not_lost(broker, client, start_worker):
    leased = []
    for number in range(8):
        worker = start_worker(broker.url, capabilities=["echo"])
        leased.append(client.submit("echo", number).id)
        worker.terminate()
        assert worker.wait() == 0
    start_worker(broker.url, capabilities=["echo"], slots=8)
    for number, task in enumerate(leased):
        view = client.wait(task, timeout_seconds=60)
        assert (view.result, view.attempts.reclaims) == (number, 0)
