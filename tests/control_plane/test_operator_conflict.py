"""Somebody else writes the replicas: a person, an autoscaler, a second pool, the owner of the Deployment."""

from collections.abc import Callable
from typing import Any

import pytest

from broker_process import BrokerProcess
from fleet import BrokerClient, Kube, OperatorProcess, recorded, until
from fleet.manifests import capability, pool, worker_deployment
from fleet.operator_metrics import operator_looks
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit

Start = Callable[..., OperatorProcess]


async def replicas(pools: Pools, name: str) -> int:
    found = await pools.deployment(name)
    assert found is not None
    number: int = found["spec"]["replicas"]
    return number


async def scale_by_hand(pools: Pools, name: str, number: int, manager: str = "kubectl") -> None:
    await pools.kube.patch(
        pools.path("Deployment", name) + "/scale", {"spec": {"replicas": number}}, fieldManager=manager
    )


def referring(name: str, deployment: str, **spec: Any) -> dict[str, Any]:
    found = pool(name, deploymentRef={"name": deployment}, **spec)
    del found["spec"]["image"]
    return found


async def test_a_person_who_scales_by_hand_is_left_alone_and_told(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient, operator: OperatorProcess
) -> None:
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("browser"), pool("browser"))
        await pools.until_ready("browser")
        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 3)
        await history.until("three", lambda sizes: sizes.replicas("browser") == [0, 3])

        await scale_by_hand(pools, "browser", 7)
        condition = await pools.until_condition("browser", "Conflict", "True", reason="Conflict")
        assert "kubectl" in condition["message"]
        await pools.until_condition("browser", "ScalingActive", "False", reason="Conflict")
        (event,) = await until("its event", lambda: pools.events("browser", "Conflict"))
        assert event["type"] == "Warning"

        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 9)
        await operator_looks(operator, pools, "browser")
        assert history.replicas("browser") == [0, 3, 7]


async def test_a_quiet_writer_is_taken_back_once_and_a_persistent_one_wins(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient, start_operator: Start, broker: BrokerProcess
) -> None:
    start_operator(broker_url=broker.url, namespaces=[namespace], args=["--conflict-quiet-seconds", "2"])
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("browser"), pool("browser"))
        await pools.until_ready("browser")
        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 5)
        await history.until("five", lambda sizes: sizes.replicas("browser") == [0, 5])

        await scale_by_hand(pools, "browser", 2)
        await pools.until_condition("browser", "Conflict", "True")
        await history.until("the pool's own size again", lambda sizes: sizes.replicas("browser")[-2:] == [2, 5])
        await pools.until_condition("browser", "Conflict", "False")
        assert await until("the event", lambda: pools.events("browser", "TookBack"))

        await scale_by_hand(pools, "browser", 2)
        condition = await pools.until_condition("browser", "Conflict", "True")
        assert "nothing more is done" in condition["message"]
        assert history.replicas("browser") == [0, 5, 2, 5, 2]

        # A change of the spec is a new chance.
        await pools.apply(pool("browser", maxReplicas=19))
        await history.until("the pool's size", lambda sizes: sizes.replicas("browser")[-1] == 5)


@pytest.mark.usefixtures("operator")
async def test_an_autoscaler_attached_later_is_named_and_not_fought(
    kube: Kube, namespace: str, pools: Pools
) -> None:
    await pools.apply(capability("browser"), pool("browser", minReplicas=1))
    await pools.until_ready("browser")
    await until("one replica", lambda: has_replicas(pools, "browser", 1))
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "late"},
        "spec": {
            "minReplicas": 4,
            "maxReplicas": 6,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "browser"},
        },
    }

    await kube.create(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers", autoscaler)

    condition = await pools.until_condition("browser", "Conflict", "True", seconds=60)
    assert "kube-controller-manager" in condition["message"]
    assert await replicas(pools, "browser") == 4


async def has_replicas(pools: Pools, name: str, number: int) -> bool:
    return await pools.deployment(name) is not None and await replicas(pools, name) == number


@pytest.mark.usefixtures("operator")
async def test_a_referenced_deployment_is_scaled_and_otherwise_left_as_it_is(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient
) -> None:
    mine = worker_deployment("mine", replicas=1)
    await kube.apply(pools.path("Deployment", "mine"), mine, "kubectl-client-side-apply")
    before = await pools.deployment("mine")
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("mine"), referring("mine", "mine", maxReplicas=8))
        await pools.until_ready("mine")
        await client.submit(namespace, *[TaskSubmit(capability="mine")] * 6)
        await history.until("six", lambda sizes: sizes.replicas("mine") == [1, 6])

    after = await pools.deployment("mine")
    assert before is not None
    assert after is not None
    assert after["spec"]["template"] == before["spec"]["template"]
    assert "ownerReferences" not in after["metadata"]
    await pools.until_condition("mine", "Conflict", "False")


@pytest.mark.usefixtures("operator")
async def test_the_owner_of_a_referenced_deployment_who_applies_replicas_again_is_a_conflict(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient
) -> None:
    mine = worker_deployment("mine", replicas=1)
    await kube.apply(pools.path("Deployment", "mine"), mine, "gitops")
    await pools.apply(capability("mine"), referring("mine", "mine"))
    assert await configured(client)
    await client.submit(namespace, *[TaskSubmit(capability="mine")] * 6)
    await until("six", lambda: has_replicas(pools, "mine", 6))

    await kube.apply(pools.path("Deployment", "mine"), mine, "gitops")

    condition = await pools.until_condition("mine", "Conflict", "True")
    assert "gitops" in condition["message"]
    assert await replicas(pools, "mine") == 1


async def configured(client: BrokerClient) -> bool:
    async def look() -> bool:
        return any(one.name == "mine" and one.configured for one in (await client.stats()).capabilities)

    return await until("the queue", look)


@pytest.mark.usefixtures("operator")
async def test_of_two_pools_on_one_deployment_the_older_scales_it(
    namespace: str, pools: Pools, client: BrokerClient
) -> None:
    await pools.apply(worker_deployment("mine", replicas=1))
    await pools.apply(capability("mine"), capability("other"), referring("mine", "mine"))
    await pools.until_ready("mine")
    await pools.apply(referring("other", "mine", minReplicas=9))

    condition = await pools.until_condition("other", "Conflict", "True")
    assert "WorkerPool mine is older" in condition["message"]
    await client.submit(namespace, *[TaskSubmit(capability="mine")] * 4)
    await until("four", lambda: has_replicas(pools, "mine", 4))

    await pools.delete("WorkerPool", "mine")
    await until("the other's size", lambda: has_replicas(pools, "mine", 9))


@pytest.mark.usefixtures("operator")
async def test_a_reference_to_nothing_waits_for_it(pools: Pools) -> None:
    await pools.apply(capability("mine"), referring("mine", "mine", minReplicas=2))
    condition = await pools.until_condition("mine", "Ready", "False", reason="DeploymentNotFound")
    assert "mine" in condition["message"]

    await pools.apply(worker_deployment("mine", replicas=1))
    await pools.until_ready("mine")
    await until("two", lambda: has_replicas(pools, "mine", 2))


@pytest.mark.usefixtures("operator")
async def test_a_referenced_deployment_without_the_pools_label_is_said_to_lack_it(pools: Pools) -> None:
    mine = worker_deployment("mine", replicas=1)
    mine["spec"]["selector"]["matchLabels"] = mine["spec"]["template"]["metadata"]["labels"] = {"app": "mine"}
    await pools.apply(mine, capability("mine"), referring("mine", "mine"))

    condition = await pools.until_condition("mine", "Ready", "False", reason="PodsNotLabelled")

    assert "leadsman.dev/pool: mine" in condition["message"]
