"""Every command, on a terminal and on a pipe: it does its work, ends as it should and never shows a traceback."""

import json
import os
import signal
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

from broker_process import eventually
from dev_process import HANDLERS, POOLS
from leadsman.cli.program import assemble
from terminal_program import on_pipes, on_terminal

SEED = Path(__file__).resolve().parents[2] / "examples" / "seed"


@dataclass(frozen=True)
class Case:
    """Arguments after the command's name, in which DEAD and WAITING stand for tasks; what is shown; how it ends."""

    arguments: str
    shown: str
    code: int = 0
    until_ctrl_c: bool = False


CASES = {
    "init": Case("new", "read new/README.md next"),
    "submit": Case("echo --count 3", "accepted 3 of 3"),
    "worker": Case("handlers:app --capability browser --log-format console", "connected to the broker", 0, True),
    "queues": Case("", "CAPABILITY"),
    "top": Case("--once --interval 0.1", "0 of 1 slots taken"),
    "cost": Case("", "no attempt reported usage in this time"),
    "budget": Case("echo", "no capability echo with a budget", 1),
    "pause": Case("echo --reason holidays", "echo paused (holidays)"),
    "resume": Case("echo", "echo was resumed already"),
    "broker": Case("serve --memory --port 0 --ops-port 0", '"listening"', 0, True),
    "dlq list": Case("fail", "DEAD"),
    "dlq show": Case("DEAD", "Boom"),
    "dlq redrive": Case("fail --all", "redriven 1"),
    "dlq purge": Case("fail DEAD --yes", "purged 1 of 1"),
    "runs list": Case("", "crawl"),
    "runs show": Case("crawl", "running"),
    "runs cancel": Case("crawl", "cancelled"),
    "explain task": Case("WAITING", "NoPoolServes"),
    "explain pool": Case("browser", "kubectl is not on PATH", 2),
    "tasks get": Case("WAITING", "ready"),
    "tasks list": Case("", "WAITING"),
    "tasks cancel": Case("WAITING", "WAITING is cancelled"),
    "dev": Case("-f pools.yaml --app handlers:app --port 0", "submit ", 0, True),
    "simulate": Case(f"{SEED / 'example4.yaml'}", "leased first: high"),
    "export-trace": Case("--out trace.jsonl", "tasks written to trace.jsonl"),
}


def commands(group, before=()):
    """Return the words of every command below a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield " ".join([*before, name])


def test_there_is_a_case_for_every_command():
    assert sorted(commands(typer.main.get_command(assemble()))) == sorted(CASES)


@pytest.fixture
def tasks(client, broker, namespace):
    """A task that waits, in a run, and one that is dead."""

    def post(path, body):
        url = f"{broker.url}/v1/namespaces/{namespace}/leases{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    waiting = client.run("crawl", max_tasks=5).submit("echo").id
    dead = client.submit("fail").id
    slots = {"capabilities": ["fail"], "slots": 1, "free_slots": 1, "attempt_id": "1"}
    (lease,) = post("", {"worker": {"pod_uid": "p", "incarnation": "1"}, **slots})["leases"]
    post("/nack", {"nacks": [{"token": lease["token"], "error": {"type": "Boom"}, "retry": False}]})
    return {"WAITING": waiting, "DEAD": dead}


@pytest.mark.parametrize("how", [on_terminal, on_pipes])
@pytest.mark.parametrize("name", CASES)
def test_it_does_its_work(how, name, environment, tasks, tmp_path, monkeypatch):
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.chdir(tmp_path)
    case = CASES[name]

    def real(text):
        for word, task in tasks.items():
            text = text.replace(word, task)
        return text

    running = how(environment | {"PATH": str(tmp_path)}, *name.split(), *real(case.arguments).split())
    try:
        if case.until_ctrl_c:
            eventually(
                lambda: real(case.shown) in running.read() or running.process.poll() is not None, what=case.shown
            )
            os.killpg(running.process.pid, signal.SIGINT)
        assert (running.wait(), real(case.shown) in running.read()) == (case.code, True), running.read()
        assert "Traceback" not in running.read()
    finally:
        running.close()
