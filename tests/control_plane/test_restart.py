"""The operator or the broker dies in the middle of a move: the end is the same, and the size does not flap.

Each kill happens at a point of the protocol that the cluster itself shows, so the tests need no luck to hit it.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker_process import BrokerProcess
from fleet import OperatorProcess
from fleet.scene import POOL, Scene

WORKERS = 8
BUSY = 3
MOST = 20

Point = Callable[[Scene], Awaitable[None]]

SCALE_OUT: dict[str, Point] = {
    "just-stored": lambda scene: scene.until_size(MOST),
    "some-workers-ready": lambda scene: scene.until_ready_replicas(least=3),
}
SCALE_IN: dict[str, Point] = {
    "fenced": Scene.until_fenced,
    "not-ready": lambda scene: scene.until_ready_replicas(most=WORKERS - 1),
    "lowered": Scene.until_shrinking,
}


@pytest.mark.parametrize("point", SCALE_OUT.values(), ids=SCALE_OUT)
async def test_an_operator_killed_in_a_scale_out_does_not_change_its_course(
    point: Point, scene: Scene, operator: OperatorProcess
) -> None:
    await scene.open(scaling={})
    await scene.submit(30, seconds=1)

    await point(scene)
    await asyncio.to_thread(operator.restart)

    await scene.until_completed(30)
    await scene.pools.until_ready(POOL)
    assert scene.history.replicas(POOL) == [0, MOST]
    scene.assert_everything_was_done_once()


async def test_work_that_came_while_no_operator_ran_is_answered_in_one_change(
    scene: Scene, operator: OperatorProcess
) -> None:
    await scene.open(scaling={})

    operator.kill()
    await scene.submit(30, seconds=1)
    await asyncio.to_thread(operator.start)

    await scene.until_completed(30)
    assert scene.history.replicas(POOL) == [0, MOST]


@pytest.mark.parametrize("point", SCALE_IN.values(), ids=SCALE_IN)
async def test_an_operator_killed_in_a_scale_in_comes_to_the_same_end(
    point: Point, scene: Scene, operator: OperatorProcess
) -> None:
    await scene.grow_then_idle(busy=BUSY, idle=WORKERS - BUSY)

    await point(scene)
    await asyncio.to_thread(operator.restart)

    await scene.until_settled(BUSY)
    scene.finish_held()
    await scene.until_settled(1)
    scene.assert_only_shrank_from(WORKERS)
    scene.assert_everything_was_done_once()


async def test_fences_of_a_dead_operator_do_not_keep_workers_from_new_work(
    scene: Scene, operator: OperatorProcess
) -> None:
    await scene.grow_then_idle(busy=BUSY, idle=WORKERS - BUSY)
    await scene.until_fenced()
    operator.kill()

    await scene.submit(WORKERS - BUSY, hold=True)
    await asyncio.to_thread(operator.start)

    await scene.until_held(WORKERS)
    await scene.until_settled(WORKERS)
    assert not scene.fleet.busy_deletions
    scene.finish_held()
    await scene.until_completed(2 * WORKERS - BUSY)
    scene.assert_everything_was_done_once()


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("point", SCALE_IN.values(), ids=SCALE_IN)
async def test_a_broker_killed_in_a_scale_in_costs_no_busy_worker(
    point: Point, scene: Scene, broker: BrokerProcess
) -> None:
    await scene.grow_then_idle(busy=BUSY, idle=WORKERS - BUSY)

    await point(scene)
    await asyncio.to_thread(broker.restart)

    await scene.until_settled(BUSY)
    scene.assert_only_shrank_from(WORKERS)
    scene.finish_held()
    await scene.until_completed(WORKERS)
    scene.assert_everything_was_done_once()
