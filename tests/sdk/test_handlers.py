"""Handlers on a real worker and a real broker: what they get, what they return, how their failures end."""

import pytest

from broker_process import eventually
from leadsman import TaskState


@pytest.mark.parametrize("name", ["default", "sync"])
def test_what_a_handler_returns_is_the_result(broker, client, start_worker, name):
    start_worker(broker.url, capabilities=["echo"])
    payload = {"a": [1, 2.5, None, True, "ü🎉"], "big": 10**30}
    assert client.result(client.submit("echo", payload, name=name).id, timeout_seconds=60) == payload


def test_a_handler_knows_its_task(broker, namespace, client, start_worker):
    worker = start_worker(broker.url, capabilities=["echo"])
    task = client.submit("echo", name="facts", tenant="acme").id
    assert client.result(task, timeout_seconds=60) == {
        "id": task,
        "key": task,
        "attempt": 1,
        "tenant": "acme",
        "namespace": namespace,
        "capability": "echo",
        "name": "facts",
        "resume": None,
        "cancelled": False,
        "budget": None,
    }
    (said,) = worker.records("facts were asked for")
    assert (
        said | {"task": task, "attempt": 1, "capability": "echo", "tenant": "acme", "extra_word": "pineapple"}
        == said
    )


def test_one_worker_serves_several_capabilities(broker, client, start_worker):
    start_worker(broker.url, capabilities=["echo", "fail"], slots=2)
    assert client.result(client.submit("echo", 1).id, timeout_seconds=60) == 1
    failing = client.submit("fail", {"raise": "ValueError", "times": 1}).id
    assert client.result(failing, timeout_seconds=60) == "recovered at attempt 2"


def test_any_exception_is_a_counted_failure_with_a_bounded_message(broker, client, start_worker):
    start_worker(broker.url, capabilities=["fail"])
    view = client.wait(client.submit("fail", {"raise": "ValueError"}).id, timeout_seconds=60)
    assert view.state is TaskState.DEAD
    assert view.attempts.failures == 3
    assert view.error.type == "ValueError"
    assert view.error.message == "x" * 4095 + "…"


@pytest.mark.parametrize("kind", ["SystemExit", "CancelledError"])
def test_a_handler_cannot_end_its_worker(broker, client, start_worker, kind):
    worker = start_worker(broker.url, capabilities=["fail"])
    view = client.wait(client.submit("fail", {"raise": kind}, max_attempts=1).id, timeout_seconds=60)
    assert view.state is TaskState.DEAD
    assert view.error.type == kind
    assert worker.alive


def test_dead_is_dead_at_once(broker, client, start_worker, journal):
    start_worker(broker.url, capabilities=["fail"])
    task = client.submit("fail", {"raise": "Dead"}).id
    view = client.wait(task, timeout_seconds=60)
    assert view.state is TaskState.DEAD
    assert view.error.message == "hopeless"
    assert len(journal.entries("ran", task)) == 1


def test_retry_waits_as_long_as_it_asks(broker, client, start_worker):
    start_worker(broker.url, capabilities=["fail"])
    task = client.submit("fail", {"raise": "Retry", "after": 3600}).id
    view = eventually(
        lambda: (v := client.get(task)).state is TaskState.DELAYED and v, what="a task that waits for its retry"
    )
    assert view.due_at - view.history[-1].at >= 3600
    assert view.attempts.failures == 1


def test_release_spends_no_attempt(broker, client, start_worker):
    start_worker(broker.url, capabilities=["fail"])
    view = client.wait(client.submit("fail", {"raise": "Release", "after": 0.1}).id, timeout_seconds=60)
    assert view.result == "done at attempt 1"
    assert (view.attempts.releases, view.attempts.failures) == (2, 0)


@pytest.mark.parametrize(
    ("payload", "words"),
    [("object", "the result is not JSON at .not.json"), ("huge", "the result has 70002 bytes and may have 65536")],
)
def test_a_result_that_cannot_be_kept_fails_the_task_not_the_worker(
    broker, client, start_worker, journal, payload, words
):
    worker = start_worker(broker.url, capabilities=["fail"])
    task = client.submit("fail", payload, name="bad-result").id
    view = client.wait(task, timeout_seconds=60)
    assert view.state is TaskState.DEAD
    assert view.error.type == "InvalidResult"
    assert view.error.message.startswith(words)
    assert len(journal.entries("ran", task)) == 1
    assert worker.alive


def test_a_task_for_a_handler_that_is_not_there_says_which_are(broker, client, start_worker):
    start_worker(broker.url, capabilities=["echo"])
    view = client.wait(client.submit("echo", name="nope", max_attempts=1).id, timeout_seconds=60)
    assert view.error.type == "UnknownHandler"
    assert (
        "has no handler 'nope' for echo; it has default, facts, orphan, spend, spend-isolated, sync"
        in view.error.message
    )


def test_a_worker_holds_no_more_leases_than_it_has_slots(broker, client, start_worker, journal, gate):
    start_worker(broker.url, capabilities=["gate"], slots=2)
    tasks = [client.submit("gate", gate.path).id for _ in range(6)]
    eventually(lambda: len(journal.entries("started")) == 2, what="two handlers at work")
    states = [client.get(task).state for task in tasks]
    assert states.count(TaskState.LEASED) == 2
    assert states.count(TaskState.READY) == 4
    gate.open()
    assert [client.result(task, timeout_seconds=60) for task in tasks] == ["passed"] * 6


def test_a_short_task_does_not_wait_behind_a_long_one_on_an_idle_fleet(broker, client, start_worker, journal, gate):
    for _ in range(2):
        start_worker(broker.url, capabilities=["gate", "echo"], slots=1)
    long = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", long), what="the long task at work")
    assert [client.result(client.submit("echo", n).id, timeout_seconds=60) for n in range(5)] == list(range(5))
    assert client.get(long).state is TaskState.LEASED


def test_cancelling_a_running_task_stops_its_async_handler(broker, client, start_worker, journal, gate):
    start_worker(broker.url, capabilities=["gate"])
    task = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    client.cancel(task)
    assert client.wait(task, timeout_seconds=60).state is TaskState.CANCELLED
    assert journal.details("cancelled", task) == [True]


def test_cancelling_a_running_task_is_seen_by_its_sync_handler(broker, client, start_worker, journal, gate):
    start_worker(broker.url, capabilities=["gate"])
    task = client.submit("gate", gate.path, name="sync").id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    client.cancel(task)
    assert client.wait(task, timeout_seconds=60).state is TaskState.CANCELLED
    assert journal.entries("cancelled", task)


def test_a_handler_that_finishes_in_spite_of_a_cancellation_keeps_its_result(
    broker, client, start_worker, journal, gate
):
    start_worker(broker.url, capabilities=["gate"])
    task = client.submit("gate", gate.path, name="stubborn").id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    client.cancel(task)
    eventually(lambda: journal.entries("told", task), what="a handler that was told to stop")
    gate.open()
    view = client.wait(task, timeout_seconds=60)
    assert (view.state, view.result) == (TaskState.COMPLETED, "passed")


def test_a_limited_capability_takes_its_share_of_the_slots_and_no_more(broker, client, start_worker, journal, gate):
    start_worker(broker.url, capabilities=["gate", "echo"], slots=4, env={"LEADSMAN_LIMITS": "gate=2"})
    tasks = [client.submit("gate", gate.path).id for _ in range(5)]
    eventually(lambda: len(journal.entries("started")) == 2, what="two handlers at work")
    assert client.result(client.submit("echo", "beside").id, timeout_seconds=60) == "beside"
    eventually(lambda: client.stats().workers[0].parked, what="a lease call for the other capability")
    assert [client.get(task).state for task in tasks].count(TaskState.LEASED) == 2
    gate.open()
    assert [client.result(task, timeout_seconds=20) for task in tasks] == ["passed"] * 5  # a call parks for 25 s
    assert {client.get(task).attempts.deliveries for task in tasks} == {1}


def test_a_worker_whose_capabilities_are_all_full_asks_when_one_has_room(
    broker, client, start_worker, journal, gate
):
    start_worker(broker.url, capabilities=["gate"], slots=4, args=["--limit", "gate=1"])
    tasks = [client.submit("gate", gate.path).id for _ in range(3)]
    eventually(lambda: journal.entries("started"), what="a handler at work")
    assert [client.get(task).state for task in tasks].count(TaskState.LEASED) == 1
    gate.open()
    assert [client.result(task, timeout_seconds=20) for task in tasks] == ["passed"] * 3
