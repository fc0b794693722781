"""A mark that could not be written is written soon, though nothing more happens to the pool for an hour."""

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.pods import PATCHES_PER_SECOND
from leadsman_operator.reconcile.act import Actor
from leadsman_operator.reconcile.observe import Surroundings
from leadsman_operator.reconcile.record import PoolRecord, StatusMemory
from leadsman_operator.scaling.model import PoolObservation, WorkerSample


class Pods:
    """The API server's part: refuses the first patches as it is told to, and keeps what the others say."""

    def __init__(self, *refusals: int) -> None:
        self.refusals = list(refusals)
        self.marked: set[str] = set()
        self.uids: set[str | None] = set()
        """Of the pods that the patches were meant for."""

    async def answer(self, request: web.Request) -> web.Response:
        if self.refusals:
            return web.json_response({"kind": "Status", "message": "not now"}, status=self.refusals.pop(0))
        name = request.path.rpartition("/")[2]
        self.marked.add(name)
        self.uids.add((await request.json())["metadata"].get("uid"))
        meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "9"}
        return web.json_response({"metadata": meta})


def busy(*uids: str) -> SimpleNamespace:
    pods = tuple({"metadata": {"name": uid, "namespace": "ns", "uid": uid, "resourceVersion": "1"}} for uid in uids)
    workers = tuple(
        WorkerSample(pod_uid=uid, slots=1, capabilities=("x",), leases=1, idle_seconds=0.0) for uid in uids
    )
    return SimpleNamespace(
        pool=SimpleNamespace(namespace="ns", spec=SimpleNamespace(scale_in_idle_seconds=60)),
        record=PoolRecord("uid", 0.0, StatusMemory(0.0)),
        around=Surroundings(None, (), pods),
        observation=PoolObservation(replicas=len(uids), workers=workers),
        decision=SimpleNamespace(signal_healthy=True),
    )


@contextlib.asynccontextmanager
async def actor_before(pods: Pods) -> AsyncIterator[Actor]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", pods.answer)
    async with TestServer(app) as server:
        configuration = Configuration()
        configuration.host = str(server.make_url("")).rstrip("/")
        async with KubeClient(configuration) as client:
            leader = SimpleNamespace(check=lambda: None)
            rest = dict.fromkeys(("observer", "workloads", "writer", "scale_in", "events", "metrics"))
            yield Actor(client=client, cache=Cache(), leadership=leader, **rest)


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_the_pool_is_looked_at_again_for_a_mark_that_was_refused(status):
    pods = Pods(status)
    async with actor_before(pods) as actor:
        look = busy("a", "b")

        again = await actor._mark(look)
        assert again is not None
        assert 0 < again <= 10
        assert len(pods.marked) == 1

        assert await actor._mark(look) is None
        assert pods.marked == {"a", "b"}


async def test_a_mark_of_a_pod_that_has_gone_is_not_tried_again():
    pods = Pods(404)
    async with actor_before(pods) as actor:
        assert await actor._mark(busy("a")) is None
    assert not pods.marked


async def test_marks_are_for_one_pod_and_never_for_its_namesake():
    pods = Pods()
    async with actor_before(pods) as actor:
        assert await actor._mark(busy("a", "b")) is None
    assert pods.uids == pods.marked == {"a", "b"}


async def test_many_marks_are_written_a_few_at_a_time():
    pods = Pods()
    async with actor_before(pods) as actor:
        look = busy(*"abcdefghijklmnopqrst")
        assert await actor._mark(look) is not None
    assert len(pods.marked) == PATCHES_PER_SECOND
