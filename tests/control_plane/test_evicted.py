"""Somebody else takes busy workers away, as a node that is drained: it is told, and costs nothing."""

from typing import Any

from fleet import Kube, OperatorProcess, until
from fleet import kube as paths
from fleet.operator_metrics import metric
from fleet.scene import POOL, Scene


async def evict(kube: Kube, pod: dict[str, Any]) -> None:
    """Ask for the pod's end as `kubectl drain` does."""
    meta = {key: pod["metadata"][key] for key in ("name", "namespace")}
    where = f"{paths.PODS.format(namespace=meta['namespace'])}/{meta['name']}/eviction"
    await kube.create(where, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})


async def test_an_evicted_worker_is_replaced_told_of_with_its_tasks_and_finishes_them(
    scene: Scene, kube: Kube, operator: OperatorProcess
) -> None:
    await scene.open()
    await scene.submit(3, hold=True)
    await scene.until_held(3)
    victim, *_ = await scene.pools.pods(POOL)

    await evict(kube, victim)

    (event,) = await until("its event", lambda: scene.pools.events(POOL, "BusyEviction"))
    assert event["type"] == "Warning"
    assert victim["metadata"]["name"] in event["note"]
    assert await metric(operator, "leadsman_operator_busy_evictions_total", pool=POOL) == 1
    assert await metric(operator, "leadsman_operator_wrong_victims_total", pool=POOL) == 0

    # What it holds needs no slot of another, but its place is filled, and work that comes is not refused one.
    await scene.submit(2, hold=True)
    await scene.until_held(5)
    assert len(scene.fleet.busy_deletions) == 1
    scene.finish_held()
    await scene.until_completed(5)
    scene.assert_everything_was_done_once()
    await scene.until_settled(0)
    assert await metric(operator, "leadsman_operator_busy_evictions_total", pool=POOL) == 1
    assert len(await scene.pools.events(POOL, "BusyEviction")) == 1
