"""A write of replicas: what it is conditional on, and what is known of one whose answer did not come."""

from contextlib import asynccontextmanager

import pytest
import yaml
from aiohttp import web
from kubernetes.aio.client import Configuration

from leadsman_operator.api import WorkerPool, pool_spec
from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.pools import Pool
from leadsman_operator.reconcile.record import PoolRecord, StatusMemory
from leadsman_operator.reconcile.replicas import ReplicaWriter, WriteOutcome

POOL = {
    "apiVersion": "leadsman.dev/v1alpha1",
    "kind": "WorkerPool",
    "metadata": {"name": "browser", "namespace": "here", "uid": "a-uid", "generation": 1},
    "spec": {"maxReplicas": 5, "image": "registry.example/agents:1"},
}
DEPLOYMENT = {
    "metadata": {"name": "browser", "namespace": "here", "uid": "d-uid", "resourceVersion": "7"},
    "spec": {"replicas": 3},
}


class Leader:
    term = 1

    def holds(self) -> bool:
        return True

    def check(self) -> None:
        return None


@asynccontextmanager
async def server(handler):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def written(handler) -> WriteOutcome:
    model = WorkerPool.model_validate(POOL)
    pool = Pool(POOL, model, pool_spec(model))
    async with server(handler) as url:
        configuration = Configuration()
        configuration.host = url
        async with KubeClient(configuration) as client:
            writer = ReplicaWriter(client, Cache(), Leader(), EventRecorder(client, "me"), Metrics())
            record = PoolRecord("a-uid", 0.0, StatusMemory(0.0))
            record.took_scale = True
            return await writer.write(pool, record, DEPLOYMENT, 2, resource_version="7")


def refused(status):
    async def handler(_request):
        return web.json_response({"kind": "Status", "message": "no", "reason": "Nope"}, status=status)

    return handler


async def hang_up(request):
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize("status", [400, 403, 404, 422, 429])
async def test_a_refused_write_did_not_happen(status):
    assert await written(refused(status)) is WriteOutcome.FAILED


@pytest.mark.parametrize("handler", [refused(500), refused(504), hang_up], ids=["500", "504", "hung up"])
async def test_a_write_without_an_answer_may_have_happened(handler):
    assert await written(handler) is WriteOutcome.UNKNOWN


class Deployments:
    """The API server's part: a Deployment that is at a later version than the one that was read."""

    def __init__(self, **spec: int) -> None:
        self.version = 8
        self.spec = spec
        self.gets_in_between = 0
        self.writes: list[tuple[str | None, bool]] = []
        """The version each write was made conditional on, and whether it took the field by force."""

    async def answer(self, request: web.Request) -> web.Response:
        meta = {"name": "browser", "namespace": "here", "uid": "d-uid", "resourceVersion": str(self.version)}
        if request.method == "GET":
            return web.json_response({"metadata": meta, "spec": self.spec})
        asked = yaml.safe_load(await request.read())["metadata"].get("resourceVersion")
        self.writes.append((asked, request.query.get("force") == "true"))
        if self.gets_in_between and self.gets_in_between >= len(self.writes):
            self.version += 1
        if asked not in {None, str(self.version)}:
            said = "the object has been modified"
            return web.json_response({"kind": "Status", "message": said, "reason": "Conflict"}, status=409)
        return web.json_response({"metadata": meta, "spec": {"replicas": 2}})


async def test_nothing_is_lowered_once_somebody_changed_the_deployment():
    changed = Deployments(replicas=9)
    assert await written(changed.answer) is WriteOutcome.CHANGED
    assert changed.writes == [("7", False)]


async def test_a_change_of_its_status_alone_is_read_again_and_does_not_stop_it():
    busy = Deployments(replicas=3)
    busy.gets_in_between = 2
    assert await written(busy.answer) is WriteOutcome.WRITTEN
    assert [version for version, _ in busy.writes] == ["7", "9", "10"]
    assert not any(forced for _, forced in busy.writes)


async def test_a_deployment_whose_status_changes_all_the_time_is_left_for_the_next_look():
    busy = Deployments(replicas=3)
    busy.gets_in_between = 100
    assert await written(busy.answer) is WriteOutcome.CHANGED
    assert 1 < len(busy.writes) < 10
