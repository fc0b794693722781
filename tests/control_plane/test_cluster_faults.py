"""Kubernetes itself stumbles in a scale-in: nobody busy goes, nobody stays fenced, the end is the same."""

import asyncio
from collections.abc import Callable

import pytest

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import OperatorProcess
from fleet.scene import Scene

BUSY, IDLE = 2, 4


@pytest.mark.usefixtures("operator")
async def test_the_api_server_restarts_in_a_scale_in(scene: Scene, control_plane: ControlPlane) -> None:
    await scene.grow_then_idle(busy=BUSY, idle=IDLE)

    await scene.until_fenced()
    control_plane.components["kube-apiserver"].kill()
    control_plane.restart("kube-apiserver")
    await asyncio.to_thread(control_plane.wait_ready)

    await scene.until_settled(BUSY)
    scene.assert_only_shrank_from(BUSY + IDLE)


async def test_without_evidence_from_the_replica_set_controller_the_fences_are_lifted(
    scene: Scene,
    control_plane: ControlPlane,
    broker: BrokerProcess,
    start_operator: Callable[..., OperatorProcess],
) -> None:
    """The scale is not lowered on hope: who has not been seen as not ready may be spared for somebody busy."""
    start_operator(broker_url=broker.url, namespaces=[scene.pools.namespace], program="fleet.hasty_operator")
    await scene.grow_then_idle(busy=BUSY, idle=IDLE)
    await scene.until_ready_replicas(least=BUSY + IDLE)

    controllers = control_plane.components["kube-controller-manager"]
    controllers.pause()
    try:
        await scene.until_fenced()
        await scene.until_unfenced()
        assert scene.sizes_since(BUSY + IDLE) == [BUSY + IDLE]
        await scene.submit(IDLE, hold=True)
        await scene.until_held(BUSY + IDLE)
    finally:
        controllers.resume()

    scene.finish_held()
    await scene.until_settled(1)
    scene.assert_only_shrank_from(BUSY + IDLE)
    scene.assert_everything_was_done_once()
