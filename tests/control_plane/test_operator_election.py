"""Two operators and one lease: one acts, the other takes over, and nobody acts on an old lease."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker_process import BrokerProcess
from fleet import BrokerClient, Kube, OperatorProcess, recorded, until
from fleet.manifests import capability, pool
from fleet.operator_metrics import metric
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit

Start = Callable[..., OperatorProcess]


@pytest.fixture
def two(start_operator: Start, broker: BrokerProcess, namespace: str) -> tuple[OperatorProcess, OperatorProcess]:
    """Two operators of one release: the first holds the lease."""

    def one(identity: str) -> OperatorProcess:
        return start_operator(
            broker_url=broker.url,
            namespaces=[namespace],
            leader_election=True,
            lease_namespace=namespace,
            args=["--identity", identity],
        )

    return one("one"), one("two")


async def lease(kube: Kube, namespace: str) -> dict[str, Any]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/leadsman-operator"
    return (await kube.find(path) or {}).get("spec", {})  # type: ignore[no-any-return]


async def until_holder(kube: Kube, namespace: str, holder: str, seconds: float = 60) -> None:
    async def look() -> bool:
        return (await lease(kube, namespace)).get("holderIdentity") == holder

    await until(f"{holder} as the holder", look, seconds=seconds)


async def leads(operator: OperatorProcess) -> bool:
    return await metric(operator, "leadsman_operator_leader") == 1


async def test_one_acts_and_the_other_goes_on_after_a_kill(
    kube: Kube,
    namespace: str,
    pools: Pools,
    client: BrokerClient,
    two: tuple[OperatorProcess, OperatorProcess],
) -> None:
    first, second = two
    async with recorded(kube, namespace) as history:
        await until_holder(kube, namespace, "one")
        await pools.apply(capability("browser"), pool("browser"))
        await pools.until_ready("browser")
        assert not await leads(second)

        first.kill()
        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 5)
        await until_holder(kube, namespace, "two")

        await history.until("five", lambda sizes: sizes.replicas("browser") == [0, 5])


async def test_a_leader_that_is_told_to_stop_hands_the_lease_over_at_once(
    kube: Kube, namespace: str, two: tuple[OperatorProcess, OperatorProcess]
) -> None:
    first, _ = two
    await until_holder(kube, namespace, "one")

    assert await asyncio.to_thread(first.terminate) == 0

    # The lease lasts fifteen seconds; a released one is taken at the next look.
    await until_holder(kube, namespace, "two", seconds=10)


async def test_a_leader_frozen_past_its_lease_does_nothing_when_it_wakes(
    kube: Kube,
    namespace: str,
    pools: Pools,
    client: BrokerClient,
    two: tuple[OperatorProcess, OperatorProcess],
) -> None:
    first, second = two
    await until_holder(kube, namespace, "one")
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")

    first.pause()
    await until_holder(kube, namespace, "two")
    await until("the second to lead", lambda: leads(second))
    second.pause()
    # The frozen leader wakes with work to be done, its lease gone and the new leader silent.
    await client.submit(namespace, *[TaskSubmit(capability="browser")] * 5)
    first.resume()

    async def knows() -> bool:
        return not await leads(first)

    await until("it to know", knows)
    found = await pools.deployment("browser")
    assert found is not None
    assert found["spec"]["replicas"] == 0

    second.resume()

    async def done() -> bool:
        found = await pools.deployment("browser")
        return found is not None and found["spec"]["replicas"] == 5

    await until("the leader's write", done)
