"""What a person sees of a fleet at work: marks on busy pods, events with numbers, a status that follows."""

from typing import Any

import pytest

from cluster import ControlPlane
from fleet import until
from fleet.scene import IDLE_SECONDS, POOL, Scene
from leadsman_operator.kube.pods import BUSY_MARKS

pytestmark = pytest.mark.usefixtures("operator")


def marked(pod: dict[str, Any]) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return all(annotations.get(key) == value for key, value in BUSY_MARKS.items())


async def test_busy_pods_are_marked_and_idle_ones_are_not(scene: Scene) -> None:
    await scene.open(minReplicas=3)
    await scene.until_ready_replicas(least=3)
    await scene.submit(2, hold=True)
    await scene.until_held(2)
    busy = {worker.assignment.pod_uid for worker in scene.fleet.workers.values() if worker.held}

    async def only_the_busy() -> bool:
        pods = await scene.pools.pods(POOL)
        return {pod["metadata"]["uid"] for pod in pods if marked(pod)} == busy

    await until("marks on the busy pods alone", only_the_busy)

    scene.finish_held()

    async def none() -> bool:
        return not any(marked(pod) for pod in await scene.pools.pods(POOL))

    await until(f"no marks after {IDLE_SECONDS} s of idleness", none)
    assert len(await scene.pools.pods(POOL)) == 3


async def test_every_move_is_explained_with_numbers(scene: Scene, control_plane: ControlPlane) -> None:
    await scene.open()
    await scene.submit(4, seconds=1)
    await scene.until_size(4)
    await scene.until_completed(4)
    await scene.until_size(0)

    shown = control_plane.kubectl("events", "--for", f"workerpool/{POOL}", "-n", scene.pools.namespace)

    assert "0 -> 4: 4 waiting" in shown
    lines = [line for line in shown.splitlines() if "ScaledIn" in line]
    assert lines, shown
    assert all("->" in line for line in lines)
    assert "DeploymentCreated" in shown


async def test_the_status_follows_the_fleet(scene: Scene) -> None:
    await scene.open()
    await scene.submit(3, hold=True)
    await scene.until_held(3)

    async def three_busy() -> bool:
        status = (await scene.pools.pool(POOL))["status"]
        return (status.get("desiredReplicas"), status.get("readyReplicas")) == (3, 3)

    await until("three ready workers in the status", three_busy)
    status = (await scene.pools.pool(POOL))["status"]
    assert status["lastDecision"]["summary"]
    assert status["selector"] == f"leadsman.dev/pool={POOL}"
    scene.finish_held()
    await scene.until_size(0)
