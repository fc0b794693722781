"""The broker as a process: how it starts, what it says when it cannot, and how it ends."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from broker_process import BrokerClient, BrokerProcess, BrokerStartError, eventually, eventually_async
from leadsman_broker.cli.capabilities_file import read_capabilities
from leadsman_broker.cli.settings import SettingsError

QUEUES = "default:\n  - name: work\n    lease_seconds: 45\n"


def refusal(start, **options):
    """Start a broker that must not start; returns the one line it says."""
    with pytest.raises(BrokerStartError) as refused:
        start(**options)
    assert refused.value.exit_code == 1, refused.value.log
    (line,) = [line for line in refused.value.log.splitlines() if not line.startswith("{")]
    assert line.startswith("leadsman-broker: ")
    return line


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_port_zero_takes_a_free_port_and_says_which():
    command = [sys.executable, "-m", "leadsman_broker.cli", "serve", "--memory", "--port", "0", "--ops-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        listening = json.loads(process.stdout.readline())["listening"]
        assert get(f"http://127.0.0.1:{listening['port']}/v1/stats")[0] == 200
        assert get(f"http://127.0.0.1:{listening['ops_port']}/readyz") == (200, "ok\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize("which", ["port", "ops_port"])
def test_a_port_in_use_is_one_line(tmp_path, which):
    process = BrokerProcess(tmp_path, memory=True)
    with socket.create_server(("127.0.0.1", getattr(process, which))), closing(process):
        line = refusal(process.start)

    assert f"port {getattr(process, which)}" in line
    assert "in use" in line


def test_a_data_folder_that_another_broker_has_is_one_line(broker, tmp_path):
    other = BrokerProcess(tmp_path / "other")
    other.data = broker.data
    with closing(other):
        line = refusal(other.start)

    assert str(broker.data) in line
    assert f"process {broker.pid}" in line
    assert get(broker.url + "/v1/stats")[0] == 200


def test_a_file_of_a_newer_program_is_one_line_and_stays_as_it_is(broker):
    broker.terminate()
    (file,) = broker.data.glob("*.db")
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()

    line = refusal(broker.start)

    assert "newer" in line
    with sqlite3.connect(file) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (99,)
    db.close()


def test_a_data_folder_that_cannot_be_made_is_one_line(tmp_path):
    process = BrokerProcess(tmp_path)
    process.data = tmp_path / "file" / "data"
    (tmp_path / "file").write_text("not a folder")
    with closing(process):
        assert "file" in refusal(process.start)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--host", "0.0.0.0"], "--insecure"),
        (["--auth", "static"], "--tokens-file"),
        (["--auth", "kubernetes"], "--kube-api-url"),
        (["--memory"], "either --data FOLDER or --memory"),
        (["--host", "no.such.host.invalid", "--insecure"], "cannot listen on no.such.host.invalid"),
    ],
)
def test_settings_that_cannot_work_are_one_line(start_broker, args, complaint):
    assert complaint in refusal(start_broker, args=args)


def test_an_unprotected_broker_on_every_address_needs_to_be_asked_for(start_broker):
    assert get(start_broker(args=["--host", "0.0.0.0", "--insecure"], memory=True).url + "/v1/stats")[0] == 200


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("default: [", "is not YAML"),
        ("default:\n  - name: Work!", "default.0.name"),
        ("default:\n  - name: a\n    lease_secs: 3", "default.0.lease_secs"),
        ("default:\n  - name: a\n  - name: a", "a twice in namespace default"),
    ],
)
def test_what_is_wrong_with_a_capabilities_file_is_told_in_one_line(tmp_path, text, complaint):
    path = tmp_path / "capabilities.yaml"
    path.write_text(text)

    with pytest.raises(SettingsError) as refused:
        read_capabilities(path)

    (line,) = str(refused.value).splitlines()
    assert complaint in line


def test_a_broker_whose_capabilities_file_cannot_be_used_ends_with_one_line(start_broker, tmp_path):
    path = tmp_path / "capabilities.yaml"
    path.write_text("default:\n  - name: Work!")

    assert "default.0.name" in refusal(start_broker, args=["--capabilities-file", str(path)], memory=True)


async def test_a_capabilities_file_makes_queues_and_follows_its_changes(start_broker, tmp_path):
    path = tmp_path / "capabilities.yaml"
    path.write_text(QUEUES)
    broker = start_broker(args=["--capabilities-file", str(path)])
    seen = []
    for text in (QUEUES, QUEUES.replace("45", "90")):
        path.write_text(text)
        broker.restart()
        async with BrokerClient(broker.url) as client:
            seen.append(await client.ok("GET", "capabilities"))

    assert [(view["generation"], view["capabilities"][0]["lease_seconds"]) for view in seen] == [(1, 45), (2, 90)]


def test_flags_come_from_the_environment_too(start_broker, tmp_path):
    (tmp_path / "capabilities.yaml").write_text(QUEUES)
    broker = start_broker(
        memory=True, env={"LEADSMAN_SERVE_CAPABILITIES_FILE": str(tmp_path / "capabilities.yaml")}
    )

    assert '"name":"work"' in get(broker.url + "/v1/namespaces/default/capabilities")[1]


async def test_sigterm_answers_parked_calls_and_ends_with_success(lone_client, broker):
    (submitted,) = await lone_client.submit({"capability": "work", "delay_seconds": 600})
    watching = asyncio.create_task(lone_client.task(submitted["id"], wait=60))
    parked = [asyncio.create_task(lone_client.lease(f"pod-{number}", wait=60)) for number in range(5)]
    await _parked(lone_client, 5)

    code = await asyncio.to_thread(broker.terminate)

    assert code == 0
    assert [await call for call in parked] == [{"worker": "active", "leases": []}] * 5
    assert (await watching)["state"] == "delayed"
    assert broker.log_records()[-1]["message"] == "stopped"


async def test_what_was_accepted_before_sigterm_is_there_afterwards(lone_client, broker):
    accepted = []

    async def produce():
        while True:
            reply = await lone_client.call("POST", "tasks", {"tasks": [{"capability": "work"}] * 10})
            if reply.status != 200:
                assert (reply.status, reply.code) == (503, "unavailable")
                return
            accepted.extend(result["id"] for result in reply.json["results"])

    producing = asyncio.create_task(produce())

    async def enough():
        return len(accepted) >= 100

    await eventually_async(enough)
    assert await asyncio.to_thread(broker.terminate) == 0
    await asyncio.gather(producing, return_exceptions=True)
    broker.start()
    await lone_client.reconnect()

    assert (await lone_client.queue())["ready"] >= len(accepted)
    assert (await lone_client.task(accepted[-1]))["state"] == "ready"


@pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace of its own needs root")
def test_sigterm_ends_it_as_the_first_process_of_a_container_too():
    serve = [sys.executable, "-m", "leadsman_broker.cli", "serve", "--memory", "--port", "0", "--ops-port", "0"]
    command = ["unshare", "--pid", "--fork", "--kill-child", *serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as outer:
        assert "listening" in outer.stdout.readline()
        (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        assert Path(f"/proc/{inner}/status").read_text().split("NSpid:")[1].split()[1] == "1"
        os.kill(int(inner), signal.SIGTERM)
        assert outer.wait(60) == 0


def test_the_operations_port_says_alive_and_ready(broker):
    assert get(broker.ops_url + "/livez") == (200, "ok\n")
    assert get(broker.ops_url + "/readyz") == (200, "ok\n")
    assert get(broker.ops_url + "/v1/stats")[0] == 404


async def test_metrics_count_what_happened_under_bounded_labels(lone_client, broker):
    await lone_client.submit({"capability": "work", "tenant": "a-tenant"}, {"capability": "work"})
    (lease,) = (await lone_client.lease("a-pod"))["leases"]
    await lone_client.ack(lease["token"])
    (lease_of_another,) = (await lone_client.lease("a-pod"))["leases"]
    failed = {"token": lease_of_another["token"], "error": {"type": "Fatal"}, "retry": False}
    await lone_client.ok("POST", "leases/nack", {"nacks": [failed]})
    await lone_client.submit({"capability": "work", "payload": "x" * 300_000}, {"capability": "work"})
    for path in ("/v1/one", "/v1/two", "/v1/namespaces/a-namespace/nothing"):
        await lone_client.call("PROPFIND", path)

    text = get(broker.ops_url + "/metrics")[1]

    assert 'leadsman_queue_tasks{capability="work",namespace="default",state="ready"} 1.0' in text
    assert 'leadsman_tasks_total{capability="work",event="accepted",namespace="default"} 3.0' in text
    assert 'leadsman_tasks_ended_total{capability="work",namespace="default",reason="NoRetry"} 1.0' in text
    assert 'leadsman_refusals_total{capability="work",code="payload_too_large",namespace="default"} 1.0' in text
    assert 'leadsman_tasks_total{capability="work",event="completed",namespace="default"} 1.0' in text
    assert 'leadsman_workers{namespace="default",state="active"} 1.0' in text
    assert 'leadsman_http_requests_total{code="404",method="any",route="unknown"} 3.0' in text
    assert 'route="/v1/namespaces/{namespace}/leases"' in text
    assert "leadsman_commit_seconds_bucket" in text
    assert "process_resident_memory_bytes" in text
    for unbounded in ("a-tenant", "a-pod", "a-namespace", "PROPFIND", lease["task"]["id"]):
        assert unbounded not in text


def test_every_log_line_is_an_object_with_a_level_and_a_time(broker):
    broker.terminate()

    records = broker.log_records()
    assert len(records) == len(broker.log.splitlines())
    assert all({"message", "level", "timestamp"} <= set(record) for record in records)


def test_the_openapi_document_describes_every_call(broker):
    document = json.loads(get(broker.url + "/v1/openapi.json")[1])

    assert document["openapi"].startswith("3.1")
    paths = document["paths"]
    assert set(paths) == {
        "/v1/namespaces/{namespace}/tasks",
        "/v1/namespaces/{namespace}/tasks/{id}",
        "/v1/namespaces/{namespace}/tasks/{id}/cancel",
        "/v1/namespaces/{namespace}/tasks/{id}/explain",
        "/v1/namespaces/{namespace}/leases",
        "/v1/namespaces/{namespace}/leases/heartbeat",
        "/v1/namespaces/{namespace}/leases/ack",
        "/v1/namespaces/{namespace}/leases/nack",
        "/v1/namespaces/{namespace}/leases/release",
        "/v1/namespaces/{namespace}/leases/once",
        "/v1/namespaces/{namespace}/capabilities",
        "/v1/namespaces/{namespace}/capabilities/{name}/dead",
        "/v1/namespaces/{namespace}/capabilities/{name}/dead/groups",
        "/v1/namespaces/{namespace}/capabilities/{name}/pause",
        "/v1/namespaces/{namespace}/capabilities/{name}/purge",
        "/v1/namespaces/{namespace}/capabilities/{name}/redrive",
        "/v1/namespaces/{namespace}/capabilities/{name}/resume",
        "/v1/namespaces/{namespace}/cost",
        "/v1/namespaces/{namespace}/capabilities/{name}/budget",
        "/v1/namespaces/{namespace}/runs",
        "/v1/namespaces/{namespace}/runs/{id}",
        "/v1/namespaces/{namespace}/runs/{id}/cancel",
        "/v1/namespaces/{namespace}/stats",
        "/v1/stats",
        "/v1/stats/stream",
        "/v1/workers/fence",
        "/v1/workers/unfence",
        "/v1/workers/cordon",
        "/v1/workers/uncordon",
    }
    schemas = document["components"]["schemas"]
    assert schemas["TaskSubmit"]["properties"]["class"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for reference in _references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas


def _references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for child in node.values():
            yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)


async def _parked(client, number):
    async def parked():
        return sum(worker["parked"] for worker in (await client.stats())["workers"]) == number

    await eventually_async(parked)


def test_a_broker_that_was_killed_starts_again(broker):
    broker.kill()
    assert eventually(lambda: not broker.alive)

    assert get(broker.restart().url + "/v1/stats")[0] == 200
