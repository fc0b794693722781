"""The played fleet does what a kubelet and a worker do, or the proofs that stand on it prove nothing."""

from collections.abc import AsyncIterator

import pytest

from broker_process import BrokerProcess
from fleet import Behaviour, BrokerClient, Fleet, Kube, until
from fleet.kube import DEPLOYMENTS, MERGE
from fleet.manifests import worker_deployment
from fleet.pools import Pools
from leadsman.wire.capabilities import CapabilitiesRequest, CapabilityConfig
from leadsman.wire.tasks import TaskSubmit
from leadsman.wire.workers import FenceOutcome, FenceRequest, UnfenceRequest

POOL = "browser"


@pytest.fixture
async def fleet(kube: Kube, namespace: str, broker: BrokerProcess, client: BrokerClient) -> AsyncIterator[Fleet]:
    """Two workers, ready, of a Deployment that no operator made."""
    config = CapabilitiesRequest(generation=1, capabilities=[CapabilityConfig(name=POOL, lease_seconds=2)])
    await client.configure(namespace, config)
    async with Fleet(kube, broker.url, namespaces=(namespace,), behaviour=Behaviour()) as one:
        await kube.create(DEPLOYMENTS.format(namespace=namespace), worker_deployment(POOL, replicas=2))
        await until("two ready pods", lambda: _ready(kube, namespace, 2))
        yield one


async def _ready(kube: Kube, namespace: str, count: int) -> bool:
    deployment = await kube.get(f"{DEPLOYMENTS.format(namespace=namespace)}/{POOL}")
    return deployment["status"].get("readyReplicas", 0) == count


async def _holding(fleet: Fleet) -> str | None:
    return next((uid for uid, worker in fleet.workers.items() if worker.held), None)


async def scale(kube: Kube, namespace: str, replicas: int) -> None:
    path = f"{DEPLOYMENTS.format(namespace=namespace)}/{POOL}/scale"
    await kube.patch(path, {"spec": {"replicas": replicas}}, MERGE)


async def test_a_fenced_worker_is_not_ready_until_the_fence_is_lifted(
    kube: Kube, namespace: str, fleet: Fleet, client: BrokerClient
) -> None:
    uid = next(iter(fleet.workers))

    reply = await client.fence(FenceRequest(operation="test", pod_uids=[uid], ttl_seconds=60))
    assert reply.results[0].outcome is FenceOutcome.FENCED
    await until("a pod that is not ready", lambda: _ready(kube, namespace, 1))
    assert not fleet.workers[uid].ready

    await client.unfence(UnfenceRequest(operation="test", pod_uids=[uid]))
    await until("both pods ready again", lambda: _ready(kube, namespace, 2))


async def test_a_busy_pod_that_is_deleted_is_told_and_still_finishes_its_task(
    kube: Kube, namespace: str, fleet: Fleet, client: BrokerClient, pools: Pools
) -> None:
    reply = await client.submit(namespace, TaskSubmit(capability=POOL, payload={"hold": True}))
    await until("a worker that holds the task", lambda: _holding(fleet))

    await scale(kube, namespace, 0)
    await until("one pod left", lambda: _pods(pools, 1))
    (busy,) = fleet.busy_deletions
    assert busy.held == (reply.results[0].id,)
    assert not busy.fenced

    fleet.book.let_go.set()
    await until("no pod left", lambda: _pods(pools, 0))
    assert fleet.book.completed == {reply.results[0].id: 1}
    assert len(fleet.deleted) == 2


async def test_a_silent_worker_loses_its_task_to_another(
    namespace: str, fleet: Fleet, client: BrokerClient
) -> None:
    await client.submit(namespace, TaskSubmit(capability=POOL, payload={"hold": True}))
    silent = await until("a worker that holds the task", lambda: _holding(fleet))
    assert silent is not None
    await fleet.silence(silent)

    async def other() -> bool:
        return any(worker.held for uid, worker in fleet.workers.items() if uid != silent)

    await until("another worker that holds it", other)
    fleet.book.let_go.set()
    await until("its completion", lambda: _completed(fleet))
    assert list(fleet.book.started.values()) == [2]


async def _pods(pools: Pools, count: int) -> bool:
    return len(await pools.pods(POOL)) == count


async def _completed(fleet: Fleet) -> bool:
    return bool(fleet.book.completed)
