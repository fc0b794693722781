"""Without a signal from the broker the fleets stay as they are, and with it they go on."""

import asyncio
from collections.abc import Callable

import pytest

from broker_process import BrokerProcess
from fleet import OperatorProcess
from fleet.scene import IDLE_SECONDS, POOL, Scene

BUSY, IDLE = 2, 4


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("lose", "restore"),
    [(BrokerProcess.kill, BrokerProcess.start), (BrokerProcess.pause, BrokerProcess.resume)],
    ids=["killed", "frozen"],
)
async def test_a_lost_signal_holds_the_fleet_where_it_is(
    lose: Callable[[BrokerProcess], None],
    restore: Callable[[BrokerProcess], object],
    scene: Scene,
    broker: BrokerProcess,
) -> None:
    await scene.grow_then_idle(busy=BUSY, idle=IDLE)

    lose(broker)
    await scene.pools.until_condition(POOL, "SignalHealthy", "False", seconds=60)
    held = scene.history.replicas(POOL)
    # What must not happen is given time to happen: three windows in which idle workers would go.
    await asyncio.sleep(3 * IDLE_SECONDS)
    assert scene.history.replicas(POOL) == held

    await asyncio.to_thread(restore, broker)
    await scene.pools.until_condition(POOL, "SignalHealthy", "True", seconds=60)
    await scene.until_settled(BUSY)
    scene.assert_only_shrank_from(BUSY + IDLE)


async def test_an_operator_that_starts_without_a_broker_waits_for_it(
    scene: Scene, broker: BrokerProcess, start_operator: Callable[..., OperatorProcess]
) -> None:
    broker.kill()
    start_operator(broker_url=broker.url, namespaces=[scene.pools.namespace])
    await scene.create()
    await scene.pools.until_condition(POOL, "SignalHealthy", "False", seconds=60)

    await asyncio.to_thread(broker.start)
    await scene.pools.until_ready(POOL, seconds=60)
    await scene.submit(4, hold=True)

    await scene.until_held(4)
    assert scene.history.replicas(POOL) == [0, 4]
