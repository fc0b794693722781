"""The worker's pieces, each alone: leases held, threads, the watch on the loop, health, settings, loading."""

import asyncio
import contextvars
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from broker_process import eventually
from held_lease import held
from leadsman import App, TaskCancelled
from leadsman.errors import ConfigurationError
from leadsman.wire.leases import WorkerState
from leadsman.worker.health import HealthServer
from leadsman.worker.holding import Holding, StopReason
from leadsman.worker.loading import load_app
from leadsman.worker.loop_watch import LoopWatch
from leadsman.worker.settings import Overrides, worker_settings
from leadsman.worker.standing import Standing
from leadsman.worker.threads import HandlerThreads


def test_a_checkpoint_is_waited_for_until_it_is_saved():
    lease = held()
    waiter = lease.save("1")
    assert not waiter.done()
    lease.saved(lease.unsaved)
    assert waiter.result(0) is None
    assert lease.unsaved is None


def test_a_newer_checkpoint_that_is_saved_covers_the_older_and_not_the_other_way_round():
    lease = held()
    first = lease.save("1")
    carried = lease.unsaved
    second = lease.save("2")
    lease.saved(carried)
    assert first.done()
    assert not second.done()
    assert lease.unsaved.state == 2
    third = lease.save("3")
    lease.saved(lease.unsaved)
    assert second.done()
    assert third.done()


def test_a_lost_lease_fails_every_checkpoint_and_every_later_one():
    lease = held()
    waiter = lease.save("1")
    lease.stop(StopReason.LEASE_LOST)
    for each in (waiter, lease.save("2")):
        with pytest.raises(TaskCancelled):
            each.result(0)
    assert lease.unsaved is None


def test_a_cancelled_task_may_still_save_its_state():
    lease = held()
    lease.stop(StopReason.DRAINING)
    waiter = lease.save("1")
    lease.saved(lease.unsaved)
    assert waiter.result(0) is None


def test_a_handler_is_told_to_stop_once_and_a_lost_lease_outweighs_the_rest():
    calls = []
    lease = held()
    lease.on_stop(lambda: calls.append("stop"))
    assert lease.stop(StopReason.DRAINING)
    assert not lease.stop(StopReason.CANCELLED)
    assert lease.stop(StopReason.LEASE_LOST)
    assert not lease.stop(StopReason.DRAINING)
    assert lease.reason is StopReason.LEASE_LOST
    assert calls == ["stop"]


def test_a_handler_that_starts_after_it_was_told_to_stop_hears_it_at_once():
    calls = []
    lease = held()
    lease.stop(StopReason.CANCELLED)
    lease.on_stop(lambda: calls.append("stop"))
    assert calls == ["stop"]


def test_a_lease_whose_reply_may_have_lain_unread_is_confirmed_by_a_heartbeat():
    woken = []
    asked_at = time.monotonic() - 30.5  # the lease has 30 s: it was given after that, nobody here knows when
    lease = held(wake=lambda: woken.append(True), asked_at=asked_at)
    sure = lease.confirm()
    assert (sure.done(), lease.unsure, woken) == (False, True, [True])
    lease.renewed(time.monotonic())
    assert sure.result(0) is None
    assert lease.confirm().done()


def test_slots_are_counted_from_leases_and_a_lost_one_still_takes_its_slot():
    holding = Holding(2)
    first, second = held("a"), held("b")
    assert holding.add(first)
    assert not holding.add(held("a"))
    assert holding.add(second)
    assert holding.free == 0
    first.stop(StopReason.LEASE_LOST)
    assert holding.ours() == [second]
    assert holding.free == 0
    holding.remove(first)
    holding.remove(first)
    assert holding.free == 1


def test_threads_are_reused_and_see_the_caller_s_context():
    number = contextvars.ContextVar("number", default=0)
    threads = HandlerThreads()
    number.set(7)
    seen = [threads.run(lambda: (number.get(), threading.get_ident())).result(10) for _ in range(20)]
    assert {value for value, _ in seen} == {7}
    assert len({ident for _, ident in seen}) < 20


def test_threads_grow_with_what_is_busy():
    threads, barrier = HandlerThreads(), threading.Barrier(5, timeout=60)
    running = [threads.run(barrier.wait) for _ in range(5)]
    assert sorted(each.result(10) for each in running) == [0, 1, 2, 3, 4]


async def test_a_loop_that_turns_is_never_wedged():
    watch = LoopWatch(asyncio.get_running_loop(), threading.get_ident())
    for _ in range(50):
        assert not watch.tick(0.0, 60.0)
        await asyncio.sleep(0)
    assert watch.silence() is None or watch.silence() < 60.0


async def test_a_blocked_loop_is_seen_from_another_thread_and_named():
    watch = LoopWatch(asyncio.get_running_loop(), threading.get_ident())
    verdicts, frames = [], []

    def look():
        while not verdicts or not verdicts[-1]:
            verdicts.append(watch.tick(0.05, 0.1))
            frames[:] = watch.where()
            time.sleep(0.02)

    looker = threading.Thread(target=look)
    started = time.monotonic()
    looker.start()
    looker.join()  # the loop does not turn meanwhile
    assert verdicts[-1]
    assert any("test_worker_pieces" in frame for frame in frames)
    await asyncio.sleep(0.01)
    assert watch.silent_since(started) >= 0.1
    assert watch.silent_since(time.monotonic() + 1) == 0.0


async def test_a_process_that_stood_still_is_not_taken_for_wedged():
    watch = LoopWatch(asyncio.get_running_loop(), threading.get_ident())
    watch.tick(0.01, 0.02)
    time.sleep(0.1)  # noqa: ASYNC251  neither the loop nor the watching thread runs, as under SIGSTOP
    assert not watch.tick(0.01, 0.02)
    await asyncio.sleep(0.01)
    assert not watch.tick(0.01, 0.02)


def status_of(port, path="/readyz"):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_readiness_follows_connection_fence_and_drain():
    standing = Standing()
    server = HealthServer(0, standing, lambda: True, str)
    server.start()
    try:
        seen = [status_of(server.port)]
        for state in (WorkerState.ACTIVE, WorkerState.FENCED, WorkerState.ACTIVE):
            standing.heard(state)
            seen.append(status_of(server.port))
        standing.drain()
        seen.append(status_of(server.port))
    finally:
        server.close()
    assert seen == [503, 200, 503, 200, 503]


def test_a_prober_that_says_nothing_does_not_hold_up_the_others():
    standing = Standing()
    standing.heard(WorkerState.ACTIVE)
    server = HealthServer(0, standing, lambda: True, str)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            assert status_of(server.port) == 200
    finally:
        server.close()


def test_liveness_is_that_of_the_heartbeats():
    server = HealthServer(0, Standing(), lambda: False, str)
    server.start()
    try:
        assert status_of(server.port, "/livez") == 503
    finally:
        server.close()


def test_a_taken_health_port_is_told():
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on port {port}.*LEADSMAN_HEALTH_PORT"):
            HealthServer(port, Standing(), lambda: True, str)


@pytest.fixture
def app():
    app = App()
    for capability in ("llm", "browser"):

        @app.task(capability)
        async def handler(ctx): ...

    return app


def test_a_worker_is_told_everything_by_its_pod(app):
    env = {
        "LEADSMAN_BROKER_URL": "http://broker:8080",
        "LEADSMAN_NAMESPACE": "agents",
        "LEADSMAN_POOL": "browser",
        "LEADSMAN_CAPABILITIES": "browser, llm",
        "LEADSMAN_SLOTS": "4",
        "LEADSMAN_LIMITS": "browser=1, llm=3",
        "LEADSMAN_POD_UID": "uid-1",
        "LEADSMAN_POD_NAME": "browser-abc",
        "LEADSMAN_DRAIN_SECONDS": "120",
        "LEADSMAN_HEALTH_PORT": "8086",
    }
    settings = worker_settings(app, Overrides(), env)
    assert settings.address.url == "http://broker:8080"
    assert settings.address.namespace == "agents"
    assert settings.identity.pod_uid == "uid-1"
    assert settings.identity.pool == "browser"
    assert settings.identity.pod_name == "browser-abc"
    assert settings.capabilities == ("browser", "llm")
    assert (settings.slots, settings.drain_seconds, settings.health_port) == (4, 120, 8086)
    assert settings.limits == {"browser": 1, "llm": 3}
    assert settings.closing_seconds == 10


def test_without_a_pod_a_worker_serves_all_it_can_under_a_name_of_its_own(app):
    first, second = (worker_settings(app, Overrides(), {}) for _ in range(2))
    assert first.capabilities == ("llm", "browser")
    assert (first.slots, first.health_port, first.drain_seconds) == (1, None, 3600)
    assert first.identity.pod_uid != second.identity.pod_uid


def test_another_life_of_the_same_pod_is_another_worker(app):
    first, second = (worker_settings(app, Overrides(), {"LEADSMAN_POD_UID": "u"}) for _ in range(2))
    assert first.identity.pod_uid == second.identity.pod_uid
    assert first.identity.id != second.identity.id


def test_flags_come_before_the_environment(app):
    given = Overrides(slots=2, capabilities=("llm",), drain_seconds=1, health_port=0, pool="mine")
    env = {"LEADSMAN_SLOTS": "9", "LEADSMAN_CAPABILITIES": "browser", "LEADSMAN_POOL": "theirs"}
    settings = worker_settings(app, given, env)
    assert (settings.slots, settings.capabilities, settings.identity.pool) == (2, ("llm",), "mine")
    assert settings.closing_seconds == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"LEADSMAN_CAPABILITIES": "llm,code"}, "no handler for code.*handlers for llm, browser"),
        ({"LEADSMAN_CAPABILITIES": "LLM"}, "no capability name"),
        ({"LEADSMAN_SLOTS": "0"}, "slots must be 1 to 4096"),
        ({"LEADSMAN_SLOTS": "many"}, "LEADSMAN_SLOTS must be a whole number, not 'many'"),
        ({"LEADSMAN_DRAIN_SECONDS": "nan"}, "LEADSMAN_DRAIN_SECONDS"),
        ({"LEADSMAN_DRAIN_SECONDS": "-1"}, "cannot be negative"),
        ({"LEADSMAN_HEALTH_PORT": "70000"}, "is no port"),
        ({"LEADSMAN_LIMITS": "code=1"}, "limits a capability that this worker does not serve .llm, browser"),
        ({"LEADSMAN_LIMITS": "llm=some"}, "'llm=some' is no limit; say CAPABILITY=SLOTS"),
        ({"LEADSMAN_LIMITS": "llm"}, "'llm' is no limit"),
        ({"LEADSMAN_POD_UID": "a b"}, "is no pod UID"),
        ({"LEADSMAN_POOL": "A"}, "is no pool name"),
        ({"LEADSMAN_BROKER_URL": "broker"}, "is no broker address"),
    ],
)
def test_a_wrong_setting_is_named(app, env, words):
    with pytest.raises(ConfigurationError, match=words):
        worker_settings(app, Overrides(), env)


def test_an_application_without_handlers_does_not_start():
    with pytest.raises(ConfigurationError, match="no handler; decorate a function"):
        worker_settings(App(), Overrides(), {})


def test_an_application_is_found_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_handlers.py").write_text("from leadsman import App\napp = other = App()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert load_app("my_handlers") is load_app("my_handlers:other")


def test_a_module_missing_inside_the_application_is_its_own_error(tmp_path, monkeypatch):
    (tmp_path / "broken_handlers.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        load_app("broken_handlers:app")


def test_contact_lost_and_found_is_said_once(capsys):
    standing = Standing()
    standing.heard(WorkerState.ACTIVE)
    for _ in range(5):
        standing.failed(ConfigurationError("no broker"))
    standing.heard(WorkerState.ACTIVE)
    shown = capsys.readouterr()
    text = shown.out + shown.err
    assert text.count("a call to the broker failed") == 1
    assert text.count("the broker answers again") == 1
    eventually(lambda: standing.ready, what="readiness")
