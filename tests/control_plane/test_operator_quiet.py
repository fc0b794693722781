"""Nothing to do is nothing done: no write from an idle operator, none from one that starts again."""

import asyncio
from typing import Any

import pytest

from broker_process import BrokerProcess
from fleet import BrokerClient, OperatorProcess, until
from fleet import kube as paths
from fleet.manifests import capability, pool
from fleet.operator_metrics import metric, operator_looks
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit

POOLS = [f"pool-{number}" for number in range(5)]


async def everything(pools: Pools) -> dict[str, str]:
    """The resource versions of all that the operator may write."""
    found = {}
    for path in (paths.POOLS, paths.CAPABILITIES, paths.DEPLOYMENTS, paths.PODS, paths.EVENTS):
        listing = await pools.kube.get(path.format(namespace=pools.namespace))
        for item in listing["items"]:
            if item.get("reportingController", "leadsman.dev/operator") != "leadsman.dev/operator":
                continue
            found[f"{path} {item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found


async def until_still(pools: Pools) -> dict[str, str]:
    """Everything as it is once two looks, two seconds apart, found the same."""
    last: dict[str, str] = {}

    async def look() -> dict[str, str] | None:
        nonlocal last
        before, last = last, await everything(pools)
        return last if before == last else None

    return await until("no more writes", look, seconds=60, every_seconds=2.0)


async def prepare(pools: Pools) -> None:
    """Some pools at zero."""
    for name in POOLS:
        await pools.apply(capability(name), pool(name))
    for name in POOLS:
        await pools.until_ready(name)


async def three(pools: Pools) -> bool:
    return len(await pools.pods(POOLS[0])) == 3


async def test_an_idle_operator_writes_nothing(pools: Pools, operator: OperatorProcess) -> None:
    await prepare(pools)
    before = await until_still(pools)

    # What must not happen is given time to happen.
    await asyncio.sleep(8)

    assert await everything(pools) == before
    assert await metric(operator, "leadsman_operator_signal_age_seconds") < 15


async def test_an_operator_that_starts_again_writes_nothing(
    pools: Pools, client: BrokerClient, operator: OperatorProcess
) -> None:
    await prepare(pools)
    await client.submit(pools.namespace, *[TaskSubmit(capability=POOLS[0])] * 3)
    await until("three pods", lambda: three(pools))
    before = await until_still(pools)

    await asyncio.to_thread(operator.restart)
    for name in POOLS:
        await until_looked(operator, name)

    assert await everything(pools) == before


async def until_looked(operator: OperatorProcess, name: str) -> None:
    async def look() -> bool:
        return await metric(operator, "leadsman_operator_decisions_total", pool=name) > 0

    await until(f"a look at {name}", look)


@pytest.mark.usefixtures("crds")
async def test_an_operator_without_a_broker_leaves_the_status_of_running_pools_alone_for_a_while(
    pools: Pools, client: BrokerClient, operator: OperatorProcess, broker: BrokerProcess
) -> None:
    """Both are started by one chart; the operator is often there first."""
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")
    await client.submit(pools.namespace, TaskSubmit(capability="browser"))
    await until_still(pools)
    before = await pools.pool("browser")

    operator.kill()
    broker.pause()
    await asyncio.to_thread(operator.start)
    await until("its lists", lambda: has_lists(operator))
    broker.resume()
    await until_looked(operator, "browser")

    after = await pools.pool("browser")
    assert conditions(after) == conditions(before)


async def has_lists(operator: OperatorProcess) -> bool:
    return '"cache filled"' in operator.log


def conditions(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c["lastTransitionTime"]) for c in found["status"]["conditions"]]


async def test_metrics_come_and_go_with_their_pool(pools: Pools, operator: OperatorProcess) -> None:
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")
    await operator_looks(operator, pools, "browser")
    assert await metric(operator, "leadsman_operator_pool_condition", pool="browser", condition="Ready") == 1
    assert await metric(operator, "leadsman_operator_pools") == 1

    await pools.delete("WorkerPool", "browser")

    async def forgotten() -> bool:
        return (
            await metric(operator, "leadsman_operator_pools") == 0
            and await metric(operator, "leadsman_operator_decisions_total", pool="browser") == 0
        )

    await until("its metrics to go", forgotten)
