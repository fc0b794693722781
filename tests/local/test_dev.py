"""Local mode from outside: unchanged YAML, real processes, real broker."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from urllib.request import Request, urlopen

import pytest

from dev_process import HANDLERS, POOLS, begin, dev
from leadsman import SyncClient
from leadsman.wire.tasks import TaskSubmit


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pools.yaml").write_text(POOLS)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


def processes(folder) -> int:
    status = json.loads((folder / ".leadsman" / "status.json").read_text())
    return status["browser"]["replicas"]


def exported(folder, url: str) -> list[dict]:
    command = [sys.executable, "-m", "leadsman.cli", "export-trace", "--out", "trace.jsonl", "--broker-url", url]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]


def test_a_batch_is_done_by_a_bounded_fleet_that_leaves_again_and_the_queue_outlives_it(folder):
    with dev(folder, "--app", "handlers:app", "--max-processes", "2") as run:
        assert "maxReplicas 20 is 2 here" in run.out
        with run.client() as client:
            ids = [result.id for result in client.submit_many([TaskSubmit(capability="browser", payload={})] * 6)]
            views = [client.wait(identifier, timeout_seconds=60) for identifier in ids]
            assert all(view.result["answer"] == 1 for view in views)
            assert {view.result["pod"] for view in views} <= {"browser-1", "browser-2"}
            run.until(lambda: "ScaledIn" in run.out and processes(folder) == 0, "the fleet has left")
            assert "ScaledOut" in run.out
            assert "WrongVictim" not in run.out
            trace = exported(folder, run.url)
            assert [line["capability"] for line in trace] == ["browser"] * 6
            assert all(line["seconds"] >= 0 and line["at"] >= 0 for line in trace)
            later = client.submit("browser", {}, delay_seconds=2).id
        assert run.interrupt() == 0
        assert "what is in the queues is kept" in run.out
    with dev(folder, "--app", "handlers:app") as run, run.client() as client:
        assert client.wait(ids[0], timeout_seconds=30).result["answer"] == 1
        assert client.wait(later, timeout_seconds=60).result["answer"] == 1
        (folder / "handlers.py").write_text(HANDLERS.replace('"answer": 1', '"answer": 2'))
        run.until(lambda: "code changed" in run.out, "the change is noticed")
        assert client.result(client.submit("browser", {}).id, timeout_seconds=60)["answer"] in {1, 2}
        run.until(
            lambda: client.result(client.submit("browser", {}).id, timeout_seconds=60)["answer"] == 2,
            "new code runs",
        )


def test_once_it_says_where_to_submit_the_queues_are_there(folder):
    with begin(folder, "--app", "handlers:app", out=subprocess.PIPE) as process:
        try:
            url = next(match[1].decode() for line in process.stdout if (match := re.match(rb"broker +(\S+)", line)))
            # Stopped where it stands: what it has not told the broker yet stays untold.
            process.send_signal(signal.SIGSTOP)
            with SyncClient(url, namespace="default") as client:
                answer = client.submit("browser", {})
            assert answer.accepted, answer
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            assert process.returncode == 0


def test_rules_are_in_force_although_the_clock_was_set_back_since_the_last_run(folder):
    def call(method: str, body: bytes | None = None) -> dict:
        request = Request(f"{run.url}/v1/namespaces/default/capabilities", body, method=method)
        request.add_header("Content-Type", "application/json")
        with urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())

    with dev(folder, "--app", "handlers:app") as run:
        ahead = call("GET") | {"generation": int(time.time() * 1000) + 3_600_000}
        assert call("PUT", json.dumps(ahead).encode())["applied"]
    (folder / "pools.yaml").write_text(POOLS.replace("lease: {seconds: 5}", "lease: {seconds: 7}"))
    with dev(folder, "--app", "handlers:app") as run:
        assert call("GET")["capabilities"][0]["lease_seconds"] == 7


def test_ctrl_c_lets_a_busy_worker_finish(folder):
    (folder / "handlers.py").write_text(
        HANDLERS.replace("import os", "import os, time").replace("    return", "    time.sleep(3)\n    return")
    )
    with dev(folder, "--app", "handlers:app") as run:
        with run.client() as client:
            task = client.submit("browser", {}).id
            run.until(lambda: client.get(task).state == "leased", "a worker has it")
        assert run.interrupt() == 0
    with dev(folder, "--app", "handlers:app") as run, run.client() as client:
        view = client.get(task)
        assert (view.state, view.attempts.deliveries) == ("completed", 1)


def test_a_worker_beyond_its_memory_is_killed_and_its_task_is_tried_again(folder):
    (folder / "pools.yaml").write_text(
        POOLS.replace("agents:1", "agents:1\n  resources: {limits: {memory: 200Mi}}").replace(
            "seconds: 5", "seconds: 2"
        )
    )
    (folder / "handlers.py").write_text(
        HANDLERS.replace("    return", "    hog = b'x' * 300_000_000 if ctx.attempt == 1 else b''\n"
                         "    import time; time.sleep(5 if hog else 0)\n    return")
    )  # fmt: skip
    with dev(folder, "--app", "handlers:app", "--max-processes", "1") as run, run.client() as client:
        assert client.result(client.submit("browser", {}).id, timeout_seconds=60)["answer"] == 1
        assert "OOMKilled" in run.out


def failure(folder, *arguments: str) -> str:
    command = [sys.executable, "-m", "leadsman.cli", "dev", "-f", "pools.yaml", *arguments]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_what_cannot_run_here_is_said_in_one_line(folder):
    assert "pools.yaml:9: spec: pool browser has no command" in failure(folder)
    (folder / "pools.yaml").write_text(POOLS.replace("maxReplicas", "maxReplica"))
    assert "pools.yaml:10: spec.maxReplica: there is no such field" in failure(folder, "--app", "handlers:app")
    (folder / "pools.yaml").write_text(
        POOLS.replace("image: registry.example/agents:1", "deploymentRef: {name: x}")
    )
    assert "a Deployment of yours is not here" in failure(folder)
    (folder / "pools.yaml").write_text(
        POOLS.replace("metadata: {name: browser}\nspec: {", "metadata: {name: llm}\nspec: {")
    )
    assert "there is no Capability browser" in failure(folder, "--app", "handlers:app")


def test_a_broker_that_dies_in_its_first_moment_is_told_in_one_line(folder):
    """It has said where it listens, and is gone before it is called."""
    (folder / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'leadsman_broker.cli' in sys.orig_argv:\n"
        '    os.write(1, b\'{"listening": {"port": 1, "ops_port": 2}}\\n\')\n'
        "    os.write(2, b'the disk is on fire\\n')\n"
        "    os._exit(3)\n"
    )
    told = failure(folder, "--app", "handlers:app")
    assert "the broker ended with 3: the disk is on fire" in told
    assert "broker.log" in told


def test_a_port_that_is_taken_is_told_in_one_line(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = failure(folder, "--app", "handlers:app", "--port", "0", "--ops-port", str(port))
    assert "local mode cannot go on" in told
    assert str(port) in told
