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
    assert worker.wait(10) == 0  # a call is parked for 25 s
    assert worker.records("drained")


def test_a_worker_without_a_broker_goes_at_once_too(start_worker):
    worker = start_worker("http://127.0.0.1:9", capabilities=["echo"], connect=False)
    assert worker.health("/livez") == 200
    worker.terminate()
    assert worker.wait(10) == 0


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
    assert worker.wait(30) == 0
    assert client.get(running).state is TaskState.COMPLETED
    view = client.get(late)
    assert (view.state, view.attempts.deliveries) == (TaskState.READY, 0)


def test_when_the_time_to_drain_is_over_the_task_goes_back_with_its_checkpoint(
    broker, client, start_worker, journal, gate
):
    worker = start_worker(broker.url, capabilities=["steps"], drain_seconds=1.0)
    task = client.submit("steps", {"steps": 3, "hold_after": 2, "gate": gate.path}).id
    eventually(lambda: journal.entries("holding", task), what="a handler after its second step")
    worker.terminate()
    assert worker.wait(30) == 0
    view = client.get(task)
    assert view.attempts.model_dump() == {"deliveries": 1, "failures": 0, "reclaims": 0, "releases": 1}
    gate.open()
    start_worker(broker.url, capabilities=["steps"])
    assert client.result(task, timeout_seconds=30) == {"steps": 3}
    assert journal.details("resumed", task) == [0, 2]


def test_a_handler_may_save_its_state_while_it_is_told_to_stop(broker, client, start_worker, journal, gate):
    worker = start_worker(broker.url, capabilities=["steps"], drain_seconds=1.0)
    task = client.submit("steps", gate.path, name="save-on-cancel").id
    eventually(lambda: journal.entries("holding", task), what="the handler at work")
    worker.terminate()
    assert worker.wait(30) == 0
    start_worker(broker.url, capabilities=["steps"])
    assert client.result(task, timeout_seconds=30) == {"saved": "at the last moment"}


@pytest.mark.parametrize("name", ["default", "sync"])
def test_a_second_sigterm_cancels_at_once(broker, client, start_worker, journal, gate, name):
    worker = start_worker(broker.url, capabilities=["gate"], drain_seconds=3600)
    task = client.submit("gate", gate.path, name=name).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    worker.terminate()
    eventually(lambda: worker.records("draining"), what="a draining worker")
    worker.terminate()
    assert worker.wait(30) == 0
    assert journal.entries("cancelled", task)
    assert client.get(task).attempts.releases == 1


def test_a_handler_that_does_not_end_is_left_to_reclaim_never_released_while_it_runs(
    broker, client, start_worker, journal, gate
):
    worker = start_worker(broker.url, capabilities=["gate"], drain_seconds=1.0)
    task = client.submit("gate", gate.path, name="stubborn").id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    worker.terminate()
    eventually(lambda: journal.entries("told", task), what="a handler that was told to stop")
    assert worker.wait(30) == 1
    assert worker.records("handlers did not end in time; their tasks are left to reclaim")
    gate.open()
    start_worker(broker.url, capabilities=["gate"])
    view = client.wait(task, timeout_seconds=30)
    assert (view.state, view.attempts.releases, view.attempts.reclaims) == (TaskState.COMPLETED, 0, 1)


def test_a_signal_reaches_a_worker_whose_loop_is_blocked(broker, client, start_worker, journal, gate):
    worker = start_worker(broker.url, capabilities=["block", "echo"], slots=2)
    blocking = client.submit("block", gate.path, name="until").id
    eventually(lambda: journal.entries("started", blocking), what="a blocked loop")
    worker.terminate()
    eventually(lambda: worker.health("/readyz") == 503, what="a worker that is not ready")
    gate.open()
    assert worker.wait(30) == 0
    assert client.get(blocking).state is TaskState.COMPLETED


def test_a_task_leased_in_the_very_moment_of_the_signal_is_not_lost(broker, client, start_worker):
    leased = []
    for number in range(8):
        worker = start_worker(broker.url, capabilities=["echo"])
        leased.append(client.submit("echo", number).id)
        worker.terminate()
        assert worker.wait(30) == 0
    start_worker(broker.url, capabilities=["echo"], slots=8)
    for number, task in enumerate(leased):
        view = client.wait(task, timeout_seconds=15)  # well below the lease of 30 s
        assert (view.result, view.attempts.reclaims) == (number, 0)
