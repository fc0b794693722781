"""Keeping a lease through blocked loops and lost packets; letting go of it when it is lost."""

import pytest

from broker_process import eventually
from leadsman import TaskState, WaitTimeoutError
from worker_process import Gate


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_handler_that_blocks_the_loop_for_one_and_a_half_leases_keeps_its_task(
    broker, client, start_worker, loop
):
    worker = start_worker(broker.url, capabilities=["block"], env={"LEADSMAN_LOOP": loop})
    view = client.wait(client.submit("block", 4.5).id, timeout_seconds=60)
    assert (view.state, view.result) == (TaskState.COMPLETED, "blocked")
    assert (view.attempts.deliveries, view.attempts.reclaims) == (1, 0)
    frames = [frame for warning in worker.records("the event loop is blocked") for frame in warning["at"]]
    assert any("agents.py" in frame and "block" in frame for frame in frames)


def test_a_task_that_a_blocked_worker_could_not_take_in_runs_elsewhere_and_only_there(
    broker, client, start_worker, journal, gate, tmp_path
):
    end = Gate(tmp_path / "end")
    start_worker(broker.url, capabilities=["stuck", "echo"], slots=2)
    stuck = client.submit("stuck", {"gate": gate.path, "end": end.path}).id
    eventually(lambda: journal.entries("started", stuck), what="the handler at work")
    eventually(lambda: client.stats().workers[0].parked, what="a lease call for the other slot")
    gate.open()
    eventually(lambda: journal.entries("blocking", stuck), what="a blocked loop")
    given = client.submit("echo", "given to a worker that does not read").id
    eventually(
        lambda: "leased" in [entry.event for entry in client.get(given).history], what="the lease nobody reads"
    )
    other = start_worker(broker.url, capabilities=["echo"])
    view = client.wait(given, timeout_seconds=60)
    assert (view.attempts.reclaims, view.attempts.failures) == (0, 0)
    end.open()
    assert client.result(stuck, timeout_seconds=60) == "blocked"
    again = client.submit("stuck", {"gate": gate.path, "end": end.path}).id
    assert client.result(again, timeout_seconds=60) == "blocked"
    assert [entry.pid for entry in journal.entries("ran", given)] == [other.pid]


def test_a_cpu_bound_sync_handler_keeps_its_task(broker, client, start_worker):
    start_worker(broker.url, capabilities=["block"])
    view = client.wait(client.submit("block", 4.5, name="cpu").id, timeout_seconds=60)
    assert (view.state, view.result) == (TaskState.COMPLETED, "burnt")
    assert (view.attempts.deliveries, view.attempts.reclaims) == (1, 0)


@pytest.mark.usefixtures("brief_leases")
def test_a_loop_that_is_silent_for_two_leases_ends_the_worker_and_its_task_runs_elsewhere(
    broker, client, start_worker, journal
):
    wedged = start_worker(broker.url, capabilities=["block"])
    task = client.submit("block", 600, max_attempts=1).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    assert wedged.wait() == 70
    (why,) = wedged.records("the worker gives up")
    assert "the event loop was silent for more than 4 s" in why["why"]
    assert "most recent call first" in wedged.log
    assert 'agents.py", line' in wedged.log
    view = client.wait(task, timeout_seconds=60)
    assert (view.state, view.attempts.reclaims) == (TaskState.DEAD, 1)


@pytest.mark.usefixtures("brief_leases")
def test_a_worker_that_stood_still_stops_its_handler_and_cannot_write_over_the_winner(
    broker, client, start_worker, journal, gate
):
    frozen = start_worker(broker.url, capabilities=["gate"])
    task = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    frozen.pause()
    other = start_worker(broker.url, capabilities=["gate"])
    eventually(lambda: len(journal.entries("started", task)) >= 2, what="the task on another worker")
    frozen.resume()
    eventually(lambda: journal.entries("cancelled", task), what="the first handler told to stop")
    assert journal.entries("cancelled", task)[0].pid == frozen.pid
    gate.open()
    view = client.wait(task, timeout_seconds=60)
    assert view.state is TaskState.COMPLETED
    assert {entry.pid for entry in journal.entries("passed", task)} == {other.pid}
    assert view.worker is None
    assert frozen.alive


@pytest.mark.usefixtures("brief_leases")
def test_a_sync_handler_whose_lease_is_lost_keeps_its_slot_until_it_ends(
    broker, client, start_worker, journal, gate
):
    frozen = start_worker(broker.url, capabilities=["gate", "echo"], slots=1)
    task = client.submit("gate", gate.path, name="stubborn").id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    frozen.pause()
    start_worker(broker.url, capabilities=["gate"], slots=1)
    eventually(lambda: len(journal.entries("started", task)) >= 2, what="the task on another worker")
    frozen.resume()
    eventually(lambda: journal.entries("told", task), what="the first handler told to stop")
    waiting = client.submit("echo", "next").id
    with pytest.raises(WaitTimeoutError):
        client.wait(waiting, timeout_seconds=1.0)
    gate.open()
    assert client.result(waiting, timeout_seconds=60) == "next"
    order = [(entry.event, entry.task) for entry in journal.entries() if entry.pid == frozen.pid]
    assert order.index(("passed", task)) < order.index(("ran", waiting))


@pytest.mark.usefixtures("brief_leases")
def test_a_sync_handler_that_never_ends_after_its_lease_is_lost_ends_its_worker(
    broker, client, start_worker, journal, gate
):
    frozen = start_worker(
        broker.url, capabilities=["gate"], env={"LEADSMAN_LOST_GRACE_SECONDS": "0.5"}, drain_seconds=600
    )
    task = client.submit("gate", gate.path, name="stubborn").id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    frozen.pause()
    eventually(lambda: client.get(task).attempts.reclaims, what="a reclaimed task")
    client.cancel(task)
    frozen.resume()
    eventually(lambda: journal.entries("told", task), what="the handler told to stop")
    assert frozen.wait() == 1
    (said,) = frozen.records("a handler goes on although its lease is lost; the worker ends, to be started anew")
    assert said["task"] == task


def test_two_lost_heartbeats_in_a_row_lose_nothing(proxy, client, start_worker, journal, gate):
    start_worker(proxy.url, capabilities=["gate"])
    task = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    for what in ("request", "reply"):
        proxy.cut("/leases/heartbeat", what, times=2)
        eventually(lambda what=what: proxy.cuts_done("/leases/heartbeat", what) == 2, what="two lost heartbeats")
    gate.open()
    view = client.wait(task, timeout_seconds=60)
    assert (view.state, view.attempts.deliveries, view.attempts.reclaims) == (TaskState.COMPLETED, 1, 0)


def test_a_lost_lease_reply_is_asked_for_again(proxy, client, start_worker):
    proxy.cut("/leases", "reply", times=2)
    start_worker(proxy.url, capabilities=["echo"], slots=3)
    tasks = [client.submit("echo", n).id for n in range(6)]
    assert [client.result(task, timeout_seconds=60) for task in tasks] == list(range(6))
    assert proxy.cuts_done("/leases", "reply") == 2
    assert {client.get(task).attempts.deliveries for task in tasks} == {1}


@pytest.mark.parametrize("what", ["request", "reply"])
def test_a_lost_ack_is_said_again(proxy, client, start_worker, journal, what):
    proxy.cut("/leases/ack", what, times=3)
    start_worker(proxy.url, capabilities=["echo"])
    task = client.submit("echo", "once").id
    assert client.result(task, timeout_seconds=60) == "once"
    assert len(journal.entries("ran", task)) == 1


@pytest.mark.usefixtures("own_broker")
def test_a_worker_that_the_broker_does_not_hear_gives_up_after_the_capability_s_patience(
    broker, client, start_worker, journal, gate
):
    start_worker(broker.url, capabilities=["impatient"])
    task = client.submit("impatient", gate.path).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    broker.kill()
    eventually(lambda: journal.entries("cancelled", task), what="a handler that is told to stop")
    broker.start()
    gate.open()
    assert client.result(task, timeout_seconds=60) == "passed"


@pytest.mark.usefixtures("own_broker")
def test_a_broker_restart_under_work_costs_no_attempt_and_stops_no_handler(
    broker, client, start_worker, journal, gate
):
    workers = [start_worker(broker.url, capabilities=["gate", "echo"], slots=4) for _ in range(2)]
    held = [client.submit("gate", gate.path).id for _ in range(5)]
    eventually(lambda: len(journal.entries("started")) == 5, what="five handlers at work")
    for _ in range(3):
        broker.kill()
        broker.start()
        assert client.result(client.submit("echo", "between").id, timeout_seconds=60) == "between"
    gate.open()
    for task in held:
        view = client.wait(task, timeout_seconds=60)
        assert (view.state, view.attempts.deliveries, view.attempts.reclaims) == (TaskState.COMPLETED, 1, 0)
    assert not journal.entries("cancelled")
    assert all(worker.alive for worker in workers)


@pytest.mark.usefixtures("own_broker")
def test_what_finished_while_the_broker_was_away_is_told_when_it_is_back(
    broker, client, start_worker, journal, gate
):
    start_worker(broker.url, capabilities=["gate"])
    task = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    broker.kill()
    gate.open()
    eventually(lambda: journal.entries("passed", task), what="the finished handler")
    broker.start()
    view = client.wait(task, timeout_seconds=60)
    assert (view.result, view.attempts.deliveries) == ("passed", 1)
    assert len(journal.entries("passed", task)) == 1
