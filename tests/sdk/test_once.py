"""`once`: an effect that is recorded never runs again; and progress, which a hung handler does not make."""

import pytest

from broker_process import eventually
from leadsman import App, Context, SyncContext, TaskState
from leadsman.context import ONCE_KEY_PATTERN
from leadsman.testing import run_task
from leadsman.wire.leases import OnceRequest


@pytest.mark.usefixtures("brief_leases")
def test_a_recorded_effect_does_not_run_again_after_a_kill(broker, client, start_worker, journal, gate):
    worker = start_worker(broker.url, capabilities=["once"])
    task = client.submit("once", gate.path).id
    eventually(lambda: journal.entries("holding", task), what="the effect, and its record")
    worker.kill()
    start_worker(broker.url, capabilities=["once"])
    assert client.result(task, timeout_seconds=60) == {"receipt": 1}
    assert journal.details("charged", task) == [task]


@pytest.mark.usefixtures("brief_leases")
@pytest.mark.parametrize("name", ["late", "late-sync"])
def test_a_process_that_stood_still_does_not_do_what_its_successor_did(
    broker, client, start_worker, journal, gate, name
):
    frozen = start_worker(broker.url, capabilities=["once"])
    task = client.submit("once", gate.path, name=name).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    frozen.pause()
    gate.open()
    winner = start_worker(broker.url, capabilities=["once"])
    assert client.result(task, timeout_seconds=60) == {"receipt": 2}
    frozen.resume()
    eventually(
        lambda: frozen.records("the attempt ended") or frozen.records("the handler is told to stop"),
        what="the first handler's end",
    )
    frozen.terminate()
    assert frozen.wait() == 0
    assert [entry.pid for entry in journal.entries("charged", task)] == [winner.pid]


@pytest.mark.usefixtures("brief_leases")
def test_nor_does_a_process_that_stood_still_before_it_read_that_the_task_is_its_own(
    broker, client, start_worker, journal, gate
):
    gate.open()
    frozen = start_worker(broker.url, capabilities=["once"])
    eventually(lambda: client.stats().workers[0].parked, what="a lease call that waits")
    frozen.pause()
    task = client.submit("once", gate.path, name="late").id
    eventually(lambda: client.get(task).attempts.reclaims, what="the end of a lease that nobody read")
    winner = start_worker(broker.url, capabilities=["once"])
    client.result(task, timeout_seconds=60)
    frozen.resume()
    eventually(
        lambda: [one for one in client.stats().workers if one.pod_uid == frozen.pod_uid and one.parked],
        what="the first process, which is done with it and asks for more",
    )
    assert {entry.pid for entry in journal.entries("charged", task)} == {winner.pid}


@pytest.mark.parametrize("name", ["sync", "isolated"])
def test_nor_after_a_failure_in_a_thread_or_a_process(broker, client, start_worker, journal, name):
    start_worker(broker.url, capabilities=["once"])
    task = client.submit("once", name=name).id
    assert client.result(task, timeout_seconds=60) == {"receipt": 1}
    assert client.get(task).attempts.failures == 1
    assert len(journal.entries("charged", task)) == 1


def test_a_record_under_way_is_waited_for_before_the_task_is_given_back(proxy, client, start_worker, journal):
    proxy.cut("/leases/once", "request", times=2)
    start_worker(proxy.url, capabilities=["once"])
    task = client.submit("once", name="cancelled").id
    assert client.result(task, timeout_seconds=60) == {"receipt": 1}
    assert client.get(task).attempts.releases == 1
    assert len(journal.entries("charged", task)) == 1


@pytest.mark.parametrize("what", ["request", "reply"])
def test_a_lost_record_is_said_again(proxy, client, start_worker, journal, what):
    proxy.cut("/leases/once", what, times=2)
    start_worker(proxy.url, capabilities=["once"])
    task = client.submit("once", name="sync").id
    assert client.result(task, timeout_seconds=60) == {"receipt": 1}
    assert proxy.cuts_done("/leases/once", what) == 2
    assert len(journal.entries("charged", task)) == 1


def test_what_cannot_be_kept_is_told_to_the_handler(broker, client, start_worker):
    start_worker(broker.url, capabilities=["once"])
    said = client.result(client.submit("once", name="bad").id, timeout_seconds=60)
    assert said[0].startswith("'a key' is no key")
    assert said[1] == (
        "the value of 'big' has 20002 bytes and may have 16384; keep it elsewhere and pass a reference"
    )
    assert said[2].startswith("the value of 'object' is not JSON")


def test_a_handler_under_test_can_be_given_what_was_done_before():
    app = App()
    calls = []

    @app.task("shop")
    async def shop(ctx: Context):
        ctx.progress()
        return [await ctx.once("card", lambda: calls.append("card") or 7), await ctx.once("mail", lambda: "sent")]

    @app.task("shop", name="sync")
    def shop_sync(ctx: SyncContext):
        return ctx.once("card", lambda: calls.append("card") or 7)

    fresh = run_task(app, "shop")
    assert (fresh.result, fresh.once, fresh.steps) == ([7, "sent"], {"card": 7, "mail": "sent"}, 1)
    again = run_task(app, "shop", once={"card": 5})
    assert (again.result, again.once) == ([5, "sent"], {"mail": "sent"})
    assert run_task(app, "shop", name="sync", once={"card": 5}).result == 5
    assert calls == ["card"]


def test_the_key_s_pattern_is_the_wire_s():
    assert OnceRequest.model_json_schema()["properties"]["key"]["pattern"] == ONCE_KEY_PATTERN


def test_steps_that_are_reported_keep_a_task_and_a_handler_without_is_stopped_and_failed(
    broker, client, start_worker
):
    start_worker(broker.url, capabilities=["gated"], slots=3)
    hung = client.submit("gated", name="hung").id
    for steady in [client.submit("gated", name=name).id for name in ("steady", "steady-isolated")]:
        view = client.wait(steady, timeout_seconds=60)
        assert (view.state, view.attempts.deliveries) == (TaskState.COMPLETED, 1)
    view = client.wait(hung, timeout_seconds=60)
    assert (view.state, view.error.type) == (TaskState.DEAD, "NoProgress")
    assert (view.attempts.failures, view.attempts.reclaims) == (1, 0)


def test_a_blocked_loop_loses_its_task_to_a_gate_that_is_tighter(broker, client, start_worker, gate):
    worker = start_worker(broker.url, capabilities=["tight"])
    task = client.submit("tight", gate.path).id
    view = client.wait(task, timeout_seconds=60)
    assert (view.state, view.attempts.reclaims) == (TaskState.DEAD, 1)
    told = worker.records("the handler is told to stop")
    assert next(record["reason"] for record in told) == "no_progress"
