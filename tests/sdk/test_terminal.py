"""The command line as a person sees it, on a pseudo-terminal."""

import os
import re
import signal

from broker_process import eventually
from terminal_program import terminal

__all__ = ["terminal"]


def test_submitting_many_shows_a_bar_and_ends_with_the_summary(terminal):
    shown = terminal("submit", "echo", "--count", "5000")
    assert shown.wait() == 0
    assert "submitting" in shown.read()
    assert "/5000" in shown.read()
    assert shown.read().rstrip().endswith("accepted 5000 of 5000")


def test_waiting_shows_results(terminal, broker, start_worker):
    start_worker(broker.url, capabilities=["echo"], slots=4)
    shown = terminal("submit", "echo", "--count", "20", "--payload", '"pineapple"', "--wait")
    assert shown.wait() == 0
    assert "waiting" in shown.read()
    assert shown.read().count('"pineapple"') == 20


def test_queues_is_a_table_and_watching_it_follows_the_queue(terminal, client):
    shown = terminal("queues", "--watch", "--interval", "0.2")
    eventually(lambda: "CAPABILITY" in shown.read(), what="the table")
    for _ in range(7):
        client.submit("echo")
    eventually(lambda: re.search(r"echo +7 ", shown.read()), what="the queue with its new tasks")
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.wait() == 130
    assert "Traceback" not in shown.read()


def test_top_follows_queues_and_workers(terminal, client, broker, start_worker):
    start_worker(broker.url, capabilities=["echo"], slots=3)
    shown = terminal("top", "--interval", "0.2")
    eventually(lambda: re.search(r"echo +0 +0 ", shown.read()), what="the queue")
    eventually(lambda: re.search(r" active +0/3 ", shown.read()), what="the worker")
    client.submit("fail")
    eventually(lambda: re.search(r"fail +1 ", shown.read()), what="a queue with its new task")
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.wait() == 130
    assert "Traceback" not in shown.read()


def test_tasks_are_listed_in_a_table(terminal, client):
    client.submit("echo", tenant="acme")
    shown = terminal("tasks", "list")
    assert shown.wait() == 0
    assert re.search(r"echo +default +ready +acme", shown.read())


def test_a_worker_in_development_is_started_again_when_a_file_changes(
    terminal, environment, client, tmp_path, monkeypatch
):
    handlers = tmp_path / "handlers.py"
    source = "from leadsman import App\napp = App()\n@app.task('echo')\nasync def echo(ctx): return {}\n"
    handlers.write_text(source.format("'old'"))
    monkeypatch.chdir(tmp_path)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    shown = terminal("worker", "handlers:app", "--reload")
    assert client.result(client.submit("echo").id, timeout_seconds=60) == "old"
    handlers.write_text("this is no Python")
    eventually(lambda: "it starts again when a file changes" in shown.read(), what="a worker that ended")
    handlers.write_text(source.format("'new'"))
    assert client.result(client.submit("echo").id, timeout_seconds=60) == "new"
    assert not (tmp_path / "__pycache__").exists()  # or code of the same second and length might be the old one
    os.kill(shown.process.pid, signal.SIGTERM)
    assert shown.wait() == 0


def test_a_task_and_a_dead_letter_queue_are_readable(terminal, client):
    task = client.submit("echo", {"a": 1}, key="order [bold]7[/bold]").id
    shown = terminal("tasks", "get", task)
    assert shown.wait() == 0
    assert "order [bold]7[/bold]" in shown.read()
    empty = terminal("dlq", "list", "echo")
    assert empty.wait() == 0
    assert "no dead tasks in echo" in empty.read()


def test_an_error_is_one_line_on_a_terminal_too(terminal):
    shown = terminal("submit", "Echo")
    assert shown.wait() == 2
    assert shown.read().strip().splitlines() == [
        "error: the task: capability: must be lower-case letters, digits, '-' and '.', as a name in Kubernetes"
    ]


def test_a_worker_on_a_terminal_drains_at_ctrl_c(terminal, client, tmp_path, monkeypatch):
    (tmp_path / "handlers.py").write_text(
        "from leadsman import App\napp = App()\n@app.task('echo')\nasync def echo(ctx): return ctx.payload\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = terminal("worker", "handlers:app", "--log-format", "console")
    assert client.result(client.submit("echo", "hello").id, timeout_seconds=60) == "hello"
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.wait() == 0
    assert "the worker runs" in shown.read()
    assert "drained" in shown.read()
