"""The rules of the queues reach the broker, whole and in order, whoever was away in between."""

import asyncio
from typing import Any

import pytest

from broker_process import BrokerProcess
from fleet import BrokerClient, OperatorProcess, until
from fleet import kube as paths
from fleet.manifests import capability, pool
from fleet.pools import Pools
from leadsman.wire.capabilities import CapabilitiesRequest, CapabilityConfig


async def configured(client: BrokerClient, namespace: str) -> set[str]:
    stats = await client.stats()
    return {one.name for one in stats.capabilities if one.namespace == namespace and one.configured}


async def until_configured(client: BrokerClient, namespace: str, *names: str) -> None:
    async def look() -> bool:
        return await configured(client, namespace) == set(names)

    await until(f"the queues {names}", look)


async def status(pools: Pools, name: str) -> dict[str, Any]:
    path = f"{paths.CAPABILITIES.format(namespace=pools.namespace)}/{name}"
    found: dict[str, Any] = (await pools.kube.get(path)).get("status", {})
    return found


async def until_ready(pools: Pools, name: str, expected: str, reason: str) -> None:
    async def look() -> bool:
        conditions = (await status(pools, name)).get("conditions", [])
        return [(one["status"], one["reason"]) for one in conditions] == [(expected, reason)]

    await until(f"{name} to be {expected} for {reason}", look)


@pytest.mark.usefixtures("operator")
async def test_queues_come_and_go_with_their_capabilities(
    namespace: str, pools: Pools, client: BrokerClient
) -> None:
    await pools.apply(capability("browser", lease={"seconds": 45}), capability("llm"))
    await until_configured(client, namespace, "browser", "llm")

    await pools.delete("Capability", "llm")
    await until_configured(client, namespace, "browser")

    await pools.delete("Capability", "browser")
    await until_configured(client, namespace)


@pytest.mark.usefixtures("operator")
async def test_a_capability_says_whether_a_pool_serves_it(pools: Pools) -> None:
    await pools.apply(capability("browser"))
    await until_ready(pools, "browser", "False", "NoPoolServes")

    await pools.apply(pool("agents", capabilities=["browser"]))
    await until_ready(pools, "browser", "True", "AsExpected")
    assert (await status(pools, "browser"))["observedGeneration"] == 1

    await pools.delete("WorkerPool", "agents")
    await until_ready(pools, "browser", "False", "NoPoolServes")


async def test_what_was_deleted_while_no_operator_ran_is_taken_from_the_broker(
    namespace: str, pools: Pools, client: BrokerClient, operator: OperatorProcess
) -> None:
    await pools.apply(capability("browser"))
    await until_configured(client, namespace, "browser")
    operator.kill()

    await pools.delete("Capability", "browser")
    await asyncio.to_thread(operator.start)

    await until_configured(client, namespace)


async def test_a_new_operator_goes_on_above_a_generation_from_a_clock_that_ran_ahead(
    namespace: str, pools: Pools, client: BrokerClient, operator: OperatorProcess
) -> None:
    await pools.apply(capability("browser"))
    await until_configured(client, namespace, "browser")
    operator.kill()
    ahead = CapabilitiesRequest(generation=99_000_000_000_000, capabilities=[CapabilityConfig(name="old")])
    await client.configure(namespace, ahead)

    await asyncio.to_thread(operator.start)

    await until_configured(client, namespace, "browser")


@pytest.mark.usefixtures("operator")
async def test_a_broker_that_lost_everything_is_told_again(
    namespace: str, pools: Pools, client: BrokerClient, broker: BrokerProcess
) -> None:
    await pools.apply(capability("browser"), pool("browser"))
    await until_configured(client, namespace, "browser")

    await asyncio.to_thread(broker.kill)
    for file in broker.data.iterdir():
        file.unlink()
    await asyncio.to_thread(broker.start)

    await until_configured(client, namespace, "browser")
    await pools.until_ready("browser")
