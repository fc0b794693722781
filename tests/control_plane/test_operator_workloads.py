"""Workloads in odd states, side by side under one operator: each pool says its own, and none disturbs another."""

import pytest

from fleet import BrokerClient, until
from fleet.kube import MERGE
from fleet.manifests import capability, pool, worker_deployment
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit


async def replicas(pools: Pools, name: str) -> int | None:
    found = await pools.deployment(name)
    return None if found is None else int(found["spec"]["replicas"])


async def until_replicas(pools: Pools, name: str, number: int) -> None:
    async def look() -> bool:
        return await replicas(pools, name) == number

    await until(f"{number} replicas of {name}", look, seconds=60)


@pytest.mark.usefixtures("operator")
async def test_each_odd_workload_is_told_and_the_others_go_on(pools: Pools, client: BrokerClient) -> None:
    nowhere = {
        "spec": {
            "nodeSelector": {"no-node": "has-this"},
            "containers": [{"name": "worker", "image": "played-by-the-fleet"}],
        }
    }
    refused = {"spec": {"containers": [{"name": "Not A Name", "image": "x"}]}}
    homeless = pool("homeless", minReplicas=2, template=nowhere)
    bad = pool("refused", minReplicas=1, template=refused)
    for each in (homeless, bad):
        del each["spec"]["image"]
    mine = pool("mine", deploymentRef={"name": "mine"}, scaling={"scaleIn": {"idleSeconds": 0}})
    del mine["spec"]["image"]
    resting = worker_deployment("mine", replicas=1)
    resting["spec"]["paused"] = True
    await pools.apply(
        *(capability(name) for name in ("homeless", "refused", "fine", "mine")),
        homeless,
        bad,
        pool("stranger", minReplicas=1, capabilities=["nobody-made-this"]),
        pool("timeless", scaling={"schedules": [{"timeZone": "Mars/Base", "min": 1}]}),
        resting,
        mine,
        pool("fine"),
    )

    await pools.until_ready("fine", "mine", seconds=60)
    condition = await pools.until_condition("homeless", "ScalingLimited", "True", reason="Unschedulable")
    assert condition["message"].startswith("no node takes ")
    condition = await pools.until_condition("refused", "Ready", "False", reason="TemplateRefused")
    assert "Not A Name" in condition["message"]
    condition = await pools.until_condition("stranger", "Ready", "False", reason="UnknownCapability")
    assert "nobody-made-this" in condition["message"]
    condition = await pools.until_condition("timeless", "Ready", "False", reason="InvalidSpec")
    assert "scaling.schedules.0.timeZone" in condition["message"]

    tasks = [TaskSubmit(capability=name) for name in ("fine", "mine", "homeless") for _ in range(4)]
    await client.submit(pools.namespace, *tasks)

    # A paused Deployment is scaled all the same: what is paused is its rollouts.
    await until_replicas(pools, "fine", 4)
    await until_replicas(pools, "mine", 4)
    # Pods without a node are workers that are on their way: not asked for twice.
    await until_replicas(pools, "homeless", 4)
    assert await replicas(pools, "refused") is None

    # A corrected spec is tried at once.
    await pools.kube.patch(pools.path("WorkerPool", "refused"), {"spec": {"template": nowhere}}, MERGE)
    await until_replicas(pools, "refused", 1)
