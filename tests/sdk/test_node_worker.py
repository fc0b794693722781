"""The example worker in Node against the real broker: docs/protocol.md is enough to write one."""

import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

from broker_process import eventually
from cluster import debian
from cluster.errors import UnavailableError
from leadsman import TaskState

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "node"


@pytest.fixture(scope="session")
def node():
    """The path of Node, from the distribution where it is not installed."""
    try:
        debian.install({"nodejs": "node"})
    except UnavailableError as reason:
        pytest.skip(f"no node here: {reason}")
    return debian.program("node")


@pytest.fixture
def start(node, broker, environment, tmp_path):
    running = []

    def start(url=broker.url):
        env = environment | {
            "LEADSMAN_BROKER_URL": url,
            "LEADSMAN_CAPABILITIES": "words",
            "LEADSMAN_SLOTS": "2",
            "LEADSMAN_POD_UID": str(uuid.uuid4()),
        }
        with (tmp_path / f"node-{len(running)}.log").open("w") as log:
            running.append(subprocess.Popen([node, FOLDER / "handlers.mjs"], env=env, stdout=log, stderr=log))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()


def texts(count, pause_ms=0):
    return {"texts": ["one two three"] * count, "pause_ms": pause_ms}


def test_it_is_short():
    lines = (FOLDER / "leadsman.mjs").read_text().splitlines()
    assert len(lines) < 150
    assert max(len(line) for line in lines) <= 160


def test_it_completes_fails_and_survives_lost_calls(proxy, client, start):
    for path in ("/leases", "/leases/ack", "/leases/heartbeat"):
        proxy.cut(path, "reply", times=2)
    start(proxy.url)
    ids = [client.submit("words", texts(count)).id for count in range(1, 5)]
    assert [client.result(task, timeout_seconds=60)["words"] for task in ids] == [3, 6, 9, 12]
    assert {client.get(task).attempts.deliveries for task in ids} == {1}
    dead = client.wait(client.submit("words", name="hopeless").id, timeout_seconds=60)
    assert (dead.state, dead.error.type, dead.attempts.failures) == (TaskState.DEAD, "RangeError", 1)
    unknown = client.wait(client.submit("words", name="nope", max_attempts=1).id, timeout_seconds=60)
    assert unknown.error.message == "no handler nope for words"


def test_another_one_goes_on_from_the_checkpoint_of_one_that_was_killed(client, start, tmp_path):
    first = start()
    task = client.submit("words", texts(20, pause_ms=100)).id
    log = tmp_path / "node-0.log"
    eventually(lambda: f"{task}: 1 of 20" in log.read_text(), what="its first checkpoint")
    start()
    first.kill()
    assert client.result(task, timeout_seconds=60) == {"words": 60, "resumed": True}
    assert client.get(task).attempts.reclaims


def test_it_outlives_a_lease_stops_when_cancelled_and_drains(client, start):
    worker = start()
    long = client.submit("words", texts(5, pause_ms=1400)).id  # longer than two leases
    cancelled = client.submit("words", texts(1, pause_ms=3_600_000)).id
    eventually(lambda: client.get(cancelled).state is TaskState.LEASED, what="a task at work")
    client.cancel(cancelled)
    assert client.wait(cancelled, timeout_seconds=60).state is TaskState.CANCELLED
    eventually(lambda: client.get(long).attempts.deliveries, what="the other at work")
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(60) == 0
    view = client.get(long)
    assert (view.state, view.attempts.deliveries) == (TaskState.COMPLETED, 1)
    assert client.get(client.submit("words", texts(1)).id).state is TaskState.READY
