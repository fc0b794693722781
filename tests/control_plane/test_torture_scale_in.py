"""Scale-in under load, on the real ReplicaSet controller while other Deployments churn: nobody busy is taken away.

The fleet itself says who held a lease at the moment of its deletion; neither the operator nor the broker is asked.
"""

import asyncio
import contextlib
import os
import random
import time
from collections import deque
from collections.abc import AsyncIterator

import pytest

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import BrokerClient, Fleet, Kube, ReplicaHistory, churning, recorded, until
from fleet.kube import DEPLOYMENTS, MERGE
from fleet.load import Load
from fleet.manifests import capability, pool, worker_deployment
from fleet.pools import Pools
from leadsman.wire.capabilities import CapabilitiesRequest, CapabilityConfig

POOLS = ("browser", "code", "llm", "search")
MOST_REPLICAS = 12
IDLE_SECONDS = 1
SCALE_INS = 200 if os.environ.get("LEADSMAN_LONG") else 40

SCALING = {
    "minReplicas": 1,
    "maxReplicas": MOST_REPLICAS,
    # One task for each slot: the size follows the load closely, so there is much to take away.
    "scaling": {"targetTasksPerSlot": 1, "scaleIn": {"idleSeconds": IDLE_SECONDS}},
}


def assert_no_busy_worker_was_deleted(fleet: Fleet) -> None:
    taken = [f"{pod.pool}/{pod.name} held {list(pod.held)}" for pod in fleet.busy_deletions]
    assert not taken, f"{len(taken)} of {len(fleet.deleted)} deleted workers held a lease: {taken}"


@contextlib.asynccontextmanager
async def crowded(kube: Kube, namespace: str, other: str, broker: BrokerProcess, seed: int) -> AsyncIterator[Fleet]:
    """A fleet whose node and controllers are busy with other people's Deployments too."""
    async with (
        Fleet(kube, broker.url, namespaces=(namespace, other), seed=seed) as fleet,
        churning(kube, other, seed=seed),
    ):
        yield fleet


async def scale_bare(kube: Kube, client: BrokerClient, namespace: str, name: str) -> None:
    """The naive scaler: the highest demand of the idle window, written into `/scale`, and that is all."""
    path = f"{DEPLOYMENTS.format(namespace=namespace)}/{name}/scale"
    seen: deque[tuple[float, int]] = deque()
    while True:
        stats = await client.stats()
        demand = sum(one.waiting + one.leased for one in stats.capabilities if one.name == name)
        seen.append((time.monotonic(), min(MOST_REPLICAS, max(1, demand))))
        while seen[0][0] < time.monotonic() - IDLE_SECONDS:
            seen.popleft()
        await kube.patch(path, {"spec": {"replicas": max(wanted for _, wanted in seen)}}, MERGE)
        await asyncio.sleep(0.25)


def scale_ins(history: ReplicaHistory) -> int:
    return sum(history.scale_ins(name) for name in POOLS)


async def at_rest(pools: Pools, fleet: Fleet) -> bool:
    """Every pool at its minimum, every worker unfenced and ready."""
    for name in POOLS:
        deployment = await pools.deployment(name)
        if deployment is None or deployment["spec"]["replicas"] != 1:
            return False
        if deployment["status"].get("readyReplicas") != 1 or len(await pools.pods(name)) != 1:
            return False
    return all(worker.ready for worker in fleet.workers.values())


@pytest.mark.long
@pytest.mark.usefixtures("operator")
async def test_scale_in_spares_every_worker_that_holds_a_lease(
    kube: Kube,
    control_plane: ControlPlane,
    namespace: str,
    pools: Pools,
    client: BrokerClient,
    broker: BrokerProcess,
) -> None:
    with control_plane.namespace("other") as other:
        async with (
            crowded(kube, namespace, other, broker, seed=2) as fleet,
            recorded(kube, namespace) as history,
        ):
            for name in POOLS:
                await pools.apply(capability(name), pool(name, **SCALING))
            await pools.until_ready(*POOLS)
            load = Load(client, namespace, POOLS, random.Random(2))
            async with load.running():
                await history.until(
                    f"{SCALE_INS} scale-ins",
                    lambda sizes: scale_ins(sizes) >= SCALE_INS,
                    seconds=10 * SCALE_INS,
                )
                assert_no_busy_worker_was_deleted(fleet)

            await until("every pool at its minimum", lambda: at_rest(pools, fleet), seconds=120)

            assert_no_busy_worker_was_deleted(fleet)
            assert fleet.book.completed == dict.fromkeys(load.accepted, 1), "a task was lost or done twice"
            assert fleet.book.started == dict.fromkeys(load.accepted, 1), "a task was delivered twice"
            gone = {pod.uid for pod in fleet.deleted}
            fenced = [fence.pod_uid for fence in (await client.stats()).fences]
            assert not set(fenced) - gone, "a living worker stayed fenced"


async def test_a_bare_replica_change_takes_busy_workers_away(
    kube: Kube, control_plane: ControlPlane, namespace: str, broker: BrokerProcess, client: BrokerClient
) -> None:
    queues = [CapabilityConfig(name=name) for name in POOLS]
    await client.configure(namespace, CapabilitiesRequest(generation=1, capabilities=queues))
    with control_plane.namespace("other") as other:
        async with (
            crowded(kube, namespace, other, broker, seed=1) as fleet,
            recorded(kube, namespace) as history,
            Load(client, namespace, POOLS, random.Random(1)).running(),
            asyncio.TaskGroup() as group,
        ):
            for name in POOLS:
                await kube.create(DEPLOYMENTS.format(namespace=namespace), worker_deployment(name, replicas=1))
            naive = [group.create_task(scale_bare(kube, client, namespace, name)) for name in POOLS]
            await history.until(
                "a busy worker's deletion, or 40 scale-ins",
                lambda sizes: bool(fleet.busy_deletions) or scale_ins(sizes) >= 40,
                seconds=120,
            )
            for task in naive:
                task.cancel()

        with pytest.raises(AssertionError, match="held a lease"):
            assert_no_busy_worker_was_deleted(fleet)
