"""Work arrives and the Deployment gets its final size in one change, not step by step."""

import pytest

from fleet import BrokerClient, Fleet, Kube, recorded, until
from fleet.manifests import capability, pool
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit

pytestmark = pytest.mark.usefixtures("operator")


async def test_fifty_tasks_take_a_pool_from_zero_to_its_size_in_one_change(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient
) -> None:
    async with (
        Fleet(kube, client.url, namespaces=(namespace,)) as fleet,
        recorded(kube, namespace) as history,
    ):
        await pools.apply(capability("browser"), pool("browser", maxReplicas=20))
        await pools.until_ready("browser")
        await history.until("the Deployment at zero", lambda sizes: sizes.replicas("browser") == [0])

        tasks = [TaskSubmit(capability="browser", payload={"seconds": 0.05}) for _ in range(50)]
        await client.submit(namespace, *tasks)

        # Workers start, lease and finish before the count is read: the whole life of the burst.
        await until("every task's completion", lambda: _completed(fleet, 50), seconds=60)
        await until("twenty ready workers", lambda: _ready(pools, "browser", 20))
        assert history.replicas("browser") == [0, 20]
        created, scaled = (size.generation for size in history.sizes["browser"])
        assert scaled == created + 1, "the Deployment's spec was changed more than once"


async def test_workers_that_have_not_started_are_not_asked_for_again(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient
) -> None:
    """There is no node: every pod stays Pending while further work arrives."""
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("browser"), pool("browser", maxReplicas=60))
        await pools.until_ready("browser")

        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 40)
        await history.until("forty replicas", lambda sizes: sizes.replicas("browser")[-1] == 40)
        await until("forty pending pods", lambda: _pods(pools, "browser", 40))
        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 5)
        await history.until("the next size", lambda sizes: sizes.replicas("browser")[-1] > 40)

        assert history.replicas("browser") == [0, 40, 45]


async def test_a_second_pool_does_not_move_for_another_pools_work(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient
) -> None:
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("browser"), pool("browser"), capability("code"), pool("code"))
        await pools.until_ready("browser", "code")

        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 3)
        await history.until("three browser workers", lambda sizes: sizes.replicas("browser") == [0, 3])
        await client.submit(namespace, *[TaskSubmit(capability="code")] * 2)
        await history.until("two code workers", lambda sizes: sizes.replicas("code")[-1] > 0)

        assert history.replicas("browser") == [0, 3]
        assert history.replicas("code") == [0, 2]


async def _completed(fleet: Fleet, count: int) -> bool:
    return len(fleet.book.completed) == count


async def _pods(pools: Pools, name: str, count: int) -> bool:
    return len(await pools.pods(name)) == count


async def _ready(pools: Pools, name: str, count: int) -> bool:
    deployment = await pools.deployment(name)
    return deployment is not None and deployment["status"].get("readyReplicas") == count
