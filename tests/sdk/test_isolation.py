"""Isolated handlers: whatever becomes of their process, the worker goes on and nothing is left."""

import os
import signal
from pathlib import Path

import pytest

from broker_process import eventually
from leadsman import App, TaskState
from leadsman.errors import ConfigurationError


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def family(journal, task):
    (pids,) = eventually(lambda: journal.details("started", task), what="the handler at work")
    return pids


@pytest.fixture
def worker(broker, start_worker):
    return start_worker(broker.url, capabilities=["isolated", "gate"], slots=4)


def test_a_handler_runs_in_a_process_of_its_own(worker, client):
    tasks = [
        client.submit("isolated", number, name=name, tenant="acme").id
        for number, name in enumerate(["default", "async", "async"])
    ]
    results = [client.result(task, timeout_seconds=60) for task in tasks]
    assert [(one["payload"], one["tenant"], one["attempt"]) for one in results] == [
        (number, "acme", 1) for number in range(3)
    ]
    assert len({one["pid"] for one in results} | {worker.pid}) == 4
    said = worker.records("said in a process of its own")
    assert sorted(one["task"] for one in said) == sorted(tasks[1:])  # they ran at once
    assert said[0] | {"attempt": 1, "capability": "isolated", "tenant": "acme"} == said[0]


@pytest.mark.usefixtures("worker")
def test_its_checkpoints_are_durable_before_they_return(client, journal):
    task = client.submit("isolated", name="steps").id
    assert client.result(task, timeout_seconds=60) == "resumed"
    assert journal.details("resumed", task) == [None, "second"]


def test_its_end_is_told_at_once_and_costs_the_worker_nothing(worker, client, journal, gate):
    beside = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", beside), what="another handler of the worker")
    ends = {
        "exit": ("crash", "ended with exit code 3"),
        "signal": ("crash", "was killed by SIGSEGV"),
        "memory": ("MemoryError", ""),
        "closed": ("crash", "ended with exit code 1"),
        "raise": ("Dead", "hopeless"),
    }
    tasks = {how: client.submit("isolated", how, name="ends").id for how in ends}
    for how, (kind, words) in ends.items():
        view = client.wait(tasks[how], timeout_seconds=60)
        assert (view.state, view.error.type, view.attempts.reclaims) == (TaskState.DEAD, kind, 0)
        assert words in view.error.message
    gate.open()
    assert client.result(beside, timeout_seconds=60) == "passed"
    assert client.get(beside).attempts.deliveries == 1
    assert worker.alive


@pytest.mark.usefixtures("worker")
def test_its_time_is_kept_and_all_that_it_started_ends_with_it(client, journal):
    task = client.submit("isolated", name="slow", max_attempts=1).id
    view = client.wait(task, timeout_seconds=60)
    assert (view.error.type, view.error.message) == (
        "timeout",
        "the handler did not end within 3 s and was killed",
    )
    assert not any(alive(pid) for pid in family(journal, task))


@pytest.mark.usefixtures("worker")
def test_a_cancelled_one_that_does_not_listen_is_killed(client, journal):
    task = client.submit("isolated", name="stubborn").id
    pids = family(journal, task)
    client.cancel(task)
    assert client.wait(task, timeout_seconds=60).state is TaskState.CANCELLED
    assert not any(alive(pid) for pid in pids)


def test_one_that_listens_may_save_its_state(broker, worker, client, journal, start_worker):
    task = client.submit("isolated", name="save-on-cancel").id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    worker.terminate()
    eventually(lambda: worker.records("draining"), what="a draining worker")
    worker.terminate()
    assert worker.wait() == 0
    start_worker(broker.url, capabilities=["isolated"])
    assert client.result(task, timeout_seconds=60) == "saved"
    assert client.get(task).attempts.releases == 1


@pytest.mark.usefixtures("brief_leases")
def test_one_whose_lease_is_lost_is_killed(worker, client, journal):
    task = client.submit("isolated", name="stubborn").id
    pids = family(journal, task)
    worker.pause()
    eventually(lambda: client.get(task).attempts.reclaims, what="a reclaimed task")
    client.cancel(task)
    worker.resume()
    eventually(lambda: not any(alive(pid) for pid in pids), what="the end of the handler and its family")
    assert worker.alive


def test_one_that_holds_the_interpreter_lock_for_longer_than_its_lease_keeps_it(broker, client, start_worker):
    start_worker(broker.url, capabilities=["greedy"])
    view = client.wait(client.submit("greedy", 3.0).id, timeout_seconds=120)
    assert (view.state, view.attempts.deliveries) == (TaskState.COMPLETED, 1)
    assert view.result >= 3.0


def test_a_worker_that_is_killed_takes_its_handlers_with_it(worker, client, journal):
    pids = family(journal, client.submit("isolated", name="stubborn").id)
    worker.kill()
    eventually(lambda: not any(alive(pid) for pid in pids), what="the end of the handler and its family")


def test_a_worker_without_its_nursery_gives_the_task_back_and_goes(broker, client, start_worker):
    crippled = start_worker(broker.url, capabilities=["isolated"])
    (nursery,) = children(crippled.pid)
    os.kill(nursery, signal.SIGKILL)
    task = client.submit("isolated").id
    assert crippled.wait() == 1
    assert crippled.records("no isolated handler can run")
    start_worker(broker.url, capabilities=["isolated"])
    view = client.wait(task, timeout_seconds=60)
    assert (view.state, view.attempts.failures) == (TaskState.COMPLETED, 0)


def test_nothing_is_left_of_attempts_that_ended(worker, client):
    for task in [client.submit("isolated", number).id for number in range(12)]:
        client.result(task, timeout_seconds=60)
    (nursery,) = children(worker.pid)
    eventually(lambda: not children(nursery), what="a nursery without children")
    open_files = len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))
    for task in [client.submit("isolated", number).id for number in range(12)]:
        client.result(task, timeout_seconds=60)
    eventually(
        lambda: len(list(Path(f"/proc/{worker.pid}/fd").iterdir())) <= open_files,
        what="as many open files as before",
    )
    worker.terminate()
    assert worker.wait() == 0
    assert not alive(nursery)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"isolation": "thread"}, 'isolation is "none" or "process"'),
        ({"timeout_seconds": 3}, 'timeout_seconds can be kept only with isolation="process"'),
        ({"isolation": "process", "memory_mib": 0}, "memory_mib must be more than 0"),
    ],
)
def test_an_isolation_that_cannot_be_is_refused(options, words):
    with pytest.raises(ConfigurationError, match=words):
        App().task("code", **options)
