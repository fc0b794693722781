"""Runs through the client and the command line, against a real broker and workers."""

import pytest

from broker_process import eventually
from leadsman import Client
from leadsman.errors import BrokerError, NotFoundError, RunTimeoutError
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskState, TaskSubmit


def test_a_run_is_submitted_watched_and_paid_for_as_one(broker, client, start_worker, gate):
    gate.open()
    start_worker(broker.url, capabilities=["echo"])
    run = client.run(max_tokens=1000, max_cost="5")
    payload = {"calls": [[10, "0.5"]], "gate": gate.path}
    run.submit("echo", payload, name="spend")
    run.submit_many([TaskSubmit(capability="echo", payload=payload, name="spend")])
    view = run.wait(timeout_seconds=60)
    assert (view.state, view.tasks.completed, view.caps.max_cost_micros) == (RunState.COMPLETED, 2, 5_000_000)
    cost = run.cost()
    assert (cost.completed, cost.tokens, cost.cost_micros) == (2, 20, 1_000_000)


def test_a_run_over_its_cap_tells_its_handlers_to_stop(broker, client, start_worker, gate):
    start_worker(broker.url, capabilities=["echo"])
    run = client.run(max_tokens=5)
    task = run.submit("echo", {"calls": [[6, 0]], "gate": gate.path}, name="spend").id
    queued = run.submit("gate").id
    view = run.wait(timeout_seconds=60)
    assert (view.state, view.reason) == (RunState.FAILED, "used 6 tokens of 5")
    assert client.get(queued).state is TaskState.CANCELLED
    assert client.wait(task, timeout_seconds=60).state is TaskState.CANCELLED
    with pytest.raises(BrokerError) as refused:
        run.submit("echo")
    assert (refused.value.code, refused.value.status) == ("run_ended", 409)
    assert "used 6 tokens of 5" in str(refused.value)


def test_a_run_that_nobody_works_on_is_still_running_and_can_be_cancelled(client):
    run = client.run("mine")
    with pytest.raises(NotFoundError):
        run.status()
    task = run.submit("echo").id
    assert client.get(task).run_id == "mine"
    with pytest.raises(RunTimeoutError) as late:
        run.wait(timeout_seconds=0.05)
    assert late.value.view.tasks.live == 1
    assert run.cancel().state is RunState.CANCELLED
    assert client.get(task).state is TaskState.CANCELLED
    assert [view.id for view in client.runs(state=RunState.CANCELLED)] == ["mine"]


async def test_the_asynchronous_client_has_the_same_calls(broker, client):
    async with Client(broker.url, namespace=client.address.namespace) as asynchronous:
        run = await asynchronous.run(max_tasks=1)
        await run.submit("echo")
        with pytest.raises(BrokerError) as refused:
            await run.submit("echo")
        assert refused.value.code == "run_ended"
        assert (await run.wait(timeout_seconds=60)).state is RunState.FAILED


def test_pages_of_runs_follow_one_another(client):
    ids = [f"run-{number}" for number in range(5)]
    for run_id in ids:
        client.run(run_id).submit("echo")
    eventually(lambda: len(client.runs()) == 5, what="five runs")
    assert [view.id for view in client.runs(limit=3)] == ids[::-1][:3]
