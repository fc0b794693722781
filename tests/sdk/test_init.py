"""The worker as process 1 of a container: a PID namespace of its own, as the kubelet gives it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from broker_process import eventually
from leadsman import TaskState

_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child"]


def _can_have_a_pid_namespace():
    try:
        return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not _can_have_a_pid_namespace(), reason="needs root on Linux, for a PID namespace")


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def start_first(broker, start_worker):
    """Start a worker as process 1; return it and the host's pids of process 1 and of its child."""

    def start(**options):
        worker = start_worker(broker.url, prefix=_NAMESPACE, **options)
        (first,) = children(worker.pid)
        (child,) = children(first)
        return worker, first, child

    return start


def test_sigterm_drains_it(start_first):
    worker, first, _ = start_first(capabilities=["echo"])
    os.kill(first, signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.records("drained")


def test_sigterm_before_the_application_is_loaded_ends_it(broker, start_worker, tmp_path):
    (tmp_path / "slow_handlers.py").write_text(
        "import pathlib, time\npathlib.Path('loading').touch()\ntime.sleep(600)\n"
    )
    worker = start_worker(
        broker.url,
        connect=False,
        prefix=_NAMESPACE,
        capabilities=["echo"],
        target="slow_handlers:app",
        env={"PYTHONPATH": str(tmp_path)},
    )
    eventually((tmp_path / "worker-1" / "loading").exists, what="an application that is being loaded")
    (first,) = children(worker.pid)
    os.kill(first, signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM


def test_orphans_are_collected_and_no_exit_code_is_stolen(start_first, client):
    _, first, child = start_first(capabilities=["echo"])
    results = [client.result(client.submit("echo", name="orphan").id, timeout_seconds=60) for _ in range(3)]
    assert results == [7, 7, 7]
    eventually(lambda: children(first) == [child], what="process 1 with only the worker as its child")


def test_the_worker_s_end_is_the_container_s_end(start_first):
    worker, _, child = start_first(capabilities=["echo"])
    os.kill(child, signal.SIGKILL)  # as the kernel does when memory runs out
    assert worker.wait() == 128 + signal.SIGKILL


@pytest.mark.usefixtures("brief_leases")
def test_a_wedged_worker_s_exit_code_comes_through(start_first, client, journal):
    worker, _, _ = start_first(capabilities=["block"])
    task = client.submit("block", 600, max_attempts=1).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    assert worker.wait() == 70
    assert client.wait(task, timeout_seconds=60).state is TaskState.DEAD
