"""Checkpoints: durable before they return, handed to the next attempt, never the one before the last."""

import pytest

from broker_process import eventually
from leadsman import TaskState


@pytest.mark.usefixtures("brief_leases")
@pytest.mark.parametrize("name", ["default", "sync"])
def test_after_a_kill_the_next_attempt_resumes_where_the_last_checkpoint_was(
    broker, client, start_worker, journal, gate, name
):
    first = start_worker(broker.url, capabilities=["steps"])
    task = client.submit("steps", {"steps": 4, "hold_after": 3, "gate": gate.path}, name=name).id
    eventually(lambda: journal.entries("holding", task), what="a handler after its third step")
    first.kill()
    gate.open()
    start_worker(broker.url, capabilities=["steps"])
    assert client.result(task, timeout_seconds=60) == {"steps": 4}
    assert journal.details("resumed", task) == [0, 3]
    assert journal.details("step", task) == [0, 1, 2, 3]


@pytest.mark.usefixtures("brief_leases")
@pytest.mark.usefixtures("own_broker")
def test_a_checkpoint_outlives_the_broker_that_took_it(broker, client, start_worker, journal, gate):
    first = start_worker(broker.url, capabilities=["steps"])
    task = client.submit("steps", {"steps": 2, "hold_after": 1, "gate": gate.path}).id
    eventually(lambda: journal.entries("holding", task), what="a handler after its first step")
    broker.kill()
    first.kill()
    broker.start()
    gate.open()
    start_worker(broker.url, capabilities=["steps"])
    assert client.result(task, timeout_seconds=60) == {"steps": 2}
    assert journal.details("resumed", task) == [0, 1]


@pytest.mark.usefixtures("own_broker")
def test_a_checkpoint_waits_for_a_broker_that_is_away(broker, client, start_worker, journal, gate):
    start_worker(broker.url, capabilities=["steps"])
    task = client.submit("steps", {"steps": 3, "hold_after": 1, "gate": gate.path}).id
    eventually(lambda: journal.entries("holding", task), what="a handler after its first step")
    broker.kill()
    gate.open()
    eventually(lambda: journal.details("step", task) == [0, 1], what="a handler at its second checkpoint")
    broker.start()
    assert client.result(task, timeout_seconds=60) == {"steps": 3}
    assert client.get(task).attempts.deliveries == 1


def test_a_failure_carries_the_checkpoint_that_was_only_queued(proxy, client, start_worker, journal, gate):
    start_worker(proxy.url, capabilities=["steps"])
    task = client.submit("steps", gate.path, name="queued-then-failed").id
    eventually(lambda: journal.entries("holding", task), what="a handler after its first checkpoint")
    proxy.cut("/leases/heartbeat", "request", times=1000)
    gate.open()
    eventually(lambda: client.get(task).attempts.failures, what="the failure")
    proxy.cut("/leases/heartbeat", "request", times=0)
    assert client.result(task, timeout_seconds=60) == "resumed from the last"
    assert journal.details("resumed", task) == [None, "second"]


def test_a_checkpoint_that_cannot_be_stored_is_told_to_the_handler(broker, client, start_worker):
    start_worker(broker.url, capabilities=["steps"])
    task = client.submit("steps", name="bad-checkpoints").id
    assert client.result(task, timeout_seconds=60) == ["refused", "refused"]


def test_many_checkpoints_at_once_are_all_kept(broker, client, start_worker, journal):
    start_worker(broker.url, capabilities=["steps"], slots=16)
    tasks = [client.submit("steps", {"steps": 20}, name=name).id for name in ("default", "sync") for _ in range(8)]
    for task in tasks:
        view = client.wait(task, timeout_seconds=60)
        assert view.state is TaskState.COMPLETED
        assert (view.attempts.deliveries, view.attempts.reclaims) == (1, 0)
        assert journal.details("step", task) == list(range(20))
