"""Readiness and orders: what the operator sees of a fence, a cordon, a drain and a broker that is away."""

import json
import urllib.request
import uuid

import pytest

from broker_process import eventually
from leadsman import TaskState


def fence(broker, pod_uid, action="fence", **options):
    body = {"operation": "test", "pod_uids": [pod_uid], **options}
    request = urllib.request.Request(
        f"{broker.url}/v1/workers/{action}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["results"][0]


def test_a_worker_is_not_ready_before_it_reached_its_broker(start_worker):
    worker = start_worker("http://127.0.0.1:9", capabilities=["echo"], connect=False)
    assert worker.health("/livez") == 200
    assert worker.health("/readyz") == 503


@pytest.mark.usefixtures("own_broker")
def test_a_broker_that_goes_away_does_not_make_a_worker_unready(broker, start_worker):
    worker = start_worker(broker.url, capabilities=["echo"])
    broker.kill()
    eventually(lambda: worker.records("a call to the broker failed; trying again"), what="a failed call")
    assert worker.health("/readyz") == 200


def test_a_fence_makes_a_worker_unready_and_lifting_it_makes_it_ready_and_useful_again(
    broker, client, start_worker
):
    worker = start_worker(broker.url, capabilities=["echo"])
    assert fence(broker, worker.pod_uid)["outcome"] == "fenced"
    eventually(lambda: worker.health("/readyz") == 503, what="a fenced worker that is not ready")
    task = client.submit("echo", "later").id
    assert worker.health("/livez") == 200
    assert client.get(task).state is TaskState.READY
    assert fence(broker, worker.pod_uid, "unfence")["lifted"]
    eventually(lambda: worker.health("/readyz") == 200, what="a worker that is ready again")
    assert client.result(task, timeout_seconds=60) == "later"


def test_an_idle_worker_learns_of_fence_and_unfence_without_a_heartbeat(broker, proxy, start_worker):
    worker = start_worker(proxy.url, capabilities=["echo"])
    proxy.cut("/leases/heartbeat", "request", times=1000)
    assert fence(broker, worker.pod_uid)["outcome"] == "fenced"
    eventually(lambda: worker.health("/readyz") == 503, what="a fenced worker that is not ready")
    fence(broker, worker.pod_uid, "unfence")
    eventually(lambda: worker.health("/readyz") == 200, what="a worker that is ready again")


def test_a_worker_that_starts_under_a_fence_is_never_ready(broker, client, start_worker):
    pod = str(uuid.uuid4())
    fence(broker, pod)
    worker = start_worker(broker.url, capabilities=["echo"], pod_uid=pod, connect=False)
    eventually(lambda: worker.records("connected to the broker"), what="a connected worker")
    assert worker.health("/readyz") == 503
    assert client.get(client.submit("echo").id).state is TaskState.READY


def test_a_cordoned_worker_stays_ready_finishes_and_works_again_when_the_cordon_is_lifted(
    broker, client, start_worker, journal, gate
):
    worker = start_worker(broker.url, capabilities=["gate"], slots=2)
    running = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", running), what="the handler at work")
    assert fence(broker, worker.pod_uid, "cordon")["leases"] == 1
    waiting = client.submit("gate", gate.path).id
    gate.open()
    client.wait(running, timeout_seconds=60)
    assert worker.health("/readyz") == 200
    assert client.get(waiting).attempts.deliveries == 0
    assert fence(broker, worker.pod_uid, "uncordon")["lifted"]
    assert client.wait(waiting, timeout_seconds=60).state is TaskState.COMPLETED


def test_a_worker_that_is_asked_to_drain_finishes_and_ends(broker, client, start_worker, journal, gate):
    worker = start_worker(broker.url, capabilities=["gate"])
    running = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", running), what="the handler at work")
    fence(broker, worker.pod_uid, "cordon", drain=True)
    eventually(lambda: worker.health("/readyz") == 503, what="a worker that is not ready")
    worker.terminate()  # one signal after that is still a request to end in good order
    gate.open()
    assert worker.wait(60) == 0
    assert client.get(running).state is TaskState.COMPLETED


def test_an_unknown_health_path_is_not_found(broker, start_worker):
    assert start_worker(broker.url, capabilities=["echo"]).health("/") == 404
