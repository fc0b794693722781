"""What a person sees of a fleet at work: marks on busy pods, events with numbers, a status that follows."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import Kube, OperatorProcess, until
from fleet import kube as paths
from fleet.operator_metrics import metric
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


async def test_status_event_metric_and_command_line_say_the_same_of_a_move(
    scene: Scene, operator: OperatorProcess, kube: Kube, control_plane: ControlPlane, broker: BrokerProcess
) -> None:
    decisions: list[dict[str, Any]] = []

    async def follow() -> None:
        async for _, found in kube.watch(paths.POOLS.format(namespace=scene.pools.namespace)):
            decisions.append(found.get("status", {}).get("lastDecision", {}))

    following = asyncio.create_task(follow())
    await scene.open(maxReplicas=3)
    await scene.submit(5, hold=True)
    await scene.until_held(3)
    (event,) = await until("the event", lambda: scene.pools.events(POOL, "ScaledOut"))

    async def stored() -> dict[str, Any] | None:
        return next((each for each in decisions if each.get("action") == "ScaleOut"), None)

    move = await until("the decision in the status", stored)
    following.cancel()
    assert event["note"] == move["summary"]
    assert event["action"] == move["action"]
    assert move["reason"] == "AtMaxReplicas"
    labels = {"pool": POOL, "action": move["action"], "reason": move["reason"]}
    assert await metric(operator, "leadsman_operator_decisions_total", **labels) == 1
    assert await metric(operator, "leadsman_operator_clamps_total", pool=POOL, reason="AtMaxReplicas") >= 1

    shown = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "leadsman.cli", "explain", "pool", POOL, "-n", scene.pools.namespace],
        env={**control_plane.environment(), "LEADSMAN_BROKER_URL": broker.url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "5 -> 3: AtMaxReplicas, maxReplicas is 3" in shown.stdout
    assert "AtMaxReplicas (5 -> 3): raise spec.maxReplicas" in shown.stdout
    assert "workers: 3: 3 busy, 0 idle" in shown.stdout
    scene.finish_held()
