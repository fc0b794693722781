"""A pool's Deployment: made once, owned, applied without ever touching its replicas, never adopted."""

import asyncio
from typing import Any

import pytest

from fleet import BrokerClient, Kube, KubeError, OperatorProcess, recorded, until
from fleet import kube as paths
from fleet.kube import MERGE, STRATEGIC
from fleet.manifests import capability, pool, worker_deployment
from fleet.operator_metrics import operator_looks
from fleet.pod_status import crashing, running
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit
from leadsman_operator.api import INJECTED_ENV


async def settled(pools: Pools, name: str, **fields: Any) -> dict[str, Any]:
    """The Deployment once its spec has these values."""

    async def look() -> dict[str, Any] | None:
        found = await pools.deployment(name)
        if found is None or any(found["spec"].get(key) != value for key, value in fields.items()):
            return None
        return found

    return await until(f"Deployment {name} with {fields}", look)


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return first


@pytest.mark.usefixtures("operator")
async def test_a_pool_gets_a_deployment_that_is_its_own(pools: Pools) -> None:
    await pools.apply(capability("browser"), pool("browser", minReplicas=2, slotsPerWorker=4))
    await pools.until_ready("browser")

    made = await settled(pools, "browser", replicas=2)
    owner = made["metadata"]["ownerReferences"][0]
    assert owner["uid"] == (await pools.pool("browser"))["metadata"]["uid"]
    assert owner["controller"] is True
    names = [entry["name"] for entry in container(made)["env"]]
    assert names == list(INJECTED_ENV)
    assert {"name": "LEADSMAN_SLOTS", "value": "4"} in container(made)["env"]
    assert container(made)["securityContext"]["allowPrivilegeEscalation"] is False
    pods = await until("two pods", lambda: pools.pods("browser"))
    assert all(pod["metadata"]["labels"]["leadsman.dev/pool"] == "browser" for pod in pods)


@pytest.mark.usefixtures("operator")
async def test_the_image_alone_is_good_enough_for_the_restricted_profile(
    kube: Kube, namespace: str, pools: Pools
) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await kube.patch(f"{paths.NAMESPACES}/{namespace}", label)

    await pools.apply(capability("browser"), pool("browser", minReplicas=1))

    await until("a pod that was let in", lambda: pools.pods("browser"))


@pytest.mark.usefixtures("operator")
async def test_a_new_image_is_applied_and_leaves_the_replicas_alone(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient
) -> None:
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("browser"), pool("browser"))
        await pools.until_ready("browser")
        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 6)
        await history.until("six replicas", lambda sizes: sizes.replicas("browser") == [0, 6])

        await pools.apply(pool("browser", image="another-image"))

        async def rolled() -> bool:
            found = await pools.deployment("browser")
            return found is not None and container(found)["image"] == "another-image"

        await until("the new image", rolled)
        await pools.until_ready("browser")
        assert history.replicas("browser") == [0, 6]


@pytest.mark.usefixtures("operator")
async def test_deleting_a_pool_takes_its_deployment_and_pods_with_it(pools: Pools) -> None:
    await pools.apply(capability("browser"), pool("browser", minReplicas=2))
    await until("its pods", lambda: pools.pods("browser"))

    await pools.delete("WorkerPool", "browser")

    async def gone() -> bool:
        return await pools.deployment("browser") is None and not await pools.pods("browser")

    await until("the end of both", gone, seconds=60)


@pytest.mark.usefixtures("operator")
async def test_a_pool_made_again_under_the_same_name_gets_a_deployment_of_its_own(pools: Pools) -> None:
    await pools.apply(capability("browser"), pool("browser", minReplicas=1))
    first = await settled(pools, "browser", replicas=1)

    await pools.delete("WorkerPool", "browser")
    await pools.apply(pool("browser", minReplicas=1, image="second"))

    async def second() -> bool:
        found = await pools.deployment("browser")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until("the second Deployment", second, seconds=60)
    await pools.until_ready("browser")
    found = await pools.deployment("browser")
    assert found is not None
    owner = found["metadata"]["ownerReferences"][0]["uid"]
    assert owner == (await pools.pool("browser"))["metadata"]["uid"]


@pytest.mark.usefixtures("operator")
async def test_a_deployment_deleted_by_hand_comes_back_at_the_size_the_work_asks_for(
    namespace: str, pools: Pools, client: BrokerClient
) -> None:
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")
    await client.submit(namespace, *[TaskSubmit(capability="browser")] * 6)
    first = await settled(pools, "browser", replicas=6)

    await pools.delete("Deployment", "browser")

    async def again() -> bool:
        found = await pools.deployment("browser")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until("the Deployment again", again, seconds=60)
    await settled(pools, "browser", replicas=6)


@pytest.mark.usefixtures("operator")
async def test_a_deployment_of_somebody_elses_is_never_adopted(pools: Pools) -> None:
    foreign = worker_deployment("browser", replicas=3)
    await pools.apply(foreign)
    before = await pools.deployment("browser")

    await pools.apply(capability("browser"), pool("browser", minReplicas=1))
    condition = await pools.until_condition("browser", "Ready", "False", reason="ForeignDeployment")
    assert "browser" in condition["message"]
    (event,) = await until("its event", lambda: pools.events("browser", "ForeignDeployment"))
    assert event["type"] == "Warning"

    after = await pools.deployment("browser")
    assert before is not None
    assert after is not None
    assert after["spec"] == before["spec"]
    assert "ownerReferences" not in after["metadata"]

    await pools.delete("Deployment", "browser")
    await pools.until_ready("browser", seconds=60)
    await settled(pools, "browser", replicas=1)


@pytest.mark.usefixtures("operator")
async def test_an_edit_of_the_generated_template_is_put_right(kube: Kube, pools: Pools) -> None:
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")

    edit = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "by-hand"}]
    await kube.patch(pools.path("Deployment", "browser"), edit, "application/json-patch+json")  # type: ignore[arg-type]

    async def restored() -> bool:
        found = await pools.deployment("browser")
        return found is not None and container(found)["image"] == "played-by-the-fleet"

    await until("the pool's image again", restored)


@pytest.mark.usefixtures("operator")
async def test_bounds_can_be_changed_at_any_time(namespace: str, pools: Pools, client: BrokerClient) -> None:
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")
    await client.submit(namespace, *[TaskSubmit(capability="browser")] * 6)
    await settled(pools, "browser", replicas=6)

    await pools.apply(pool("browser", minReplicas=9))
    await settled(pools, "browser", replicas=9)
    events = await until("the event of the change", lambda: pools.events("browser", "BoundsChanged"))
    assert "0-20 -> 9-20" in events[0]["note"]

    await pools.kube.patch(
        pools.path("WorkerPool", "browser") + "/scale", {"spec": {"replicas": 11}}, MERGE, fieldManager="kubectl"
    )
    await settled(pools, "browser", replicas=11)


async def test_an_operator_that_died_half_way_through_a_creation_does_not_reset_the_replicas(
    kube: Kube, namespace: str, pools: Pools, operator: OperatorProcess
) -> None:
    """Its apply of the template owns the replicas; the next apply leaves them out, which resets them to one."""
    await pools.apply(capability("browser"), pool("browser", minReplicas=4))
    made = await settled(pools, "browser", replicas=4)
    await pools.until_ready("browser")
    operator.kill()
    await pools.delete("Deployment", "browser")
    await until("its end", lambda: missing(pools))
    half = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {key: made["metadata"][key] for key in ("name", "labels", "ownerReferences")},
        "spec": {key: made["spec"][key] for key in ("replicas", "selector", "strategy", "template")},
    }
    half["metadata"]["annotations"] = {"leadsman.dev/applied": "an older one"}
    await kube.apply(pools.path("Deployment", "browser"), half, "leadsman-operator")

    async with recorded(kube, namespace) as history:
        await asyncio.to_thread(operator.start)
        await until("the whole template", lambda: applied(pools, made))
        assert history.replicas("browser") == [4]


async def missing(pools: Pools) -> bool:
    return await pools.deployment("browser") is None


async def applied(pools: Pools, like: dict[str, Any]) -> bool:
    found = await pools.deployment("browser")
    mark = "leadsman.dev/applied"
    return found is not None and found["metadata"]["annotations"][mark] == like["metadata"]["annotations"][mark]


async def test_a_quota_is_a_condition_and_stops_growing(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient, operator: OperatorProcess
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "2"}},
    }
    await kube.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")

    await client.submit(namespace, *[TaskSubmit(capability="browser")] * 5)

    condition = await pools.until_condition("browser", "ScalingLimited", "True", reason="QuotaExceeded")
    assert "exceeded quota" in condition["message"]
    (event,) = await until("its event", lambda: pools.events("browser", "QuotaExceeded"))
    assert event["type"] == "Warning"
    await client.submit(namespace, *[TaskSubmit(capability="browser")] * 10)
    await operator_looks(operator, pools, "browser")

    async def held() -> bool:
        """Not merely for the idle window, after which a fleet without work would go, and be made again."""
        decision = (await pools.pool("browser"))["status"]["lastDecision"]
        return (decision["action"], decision["reason"]) == ("Hold", "QuotaExceeded")

    await until("a decision that holds the fleet", held)
    found = await pools.deployment("browser")
    assert found is not None
    assert found["spec"]["replicas"] == 5


@pytest.mark.usefixtures("operator")
async def test_pods_that_cannot_start_are_a_condition_and_an_event(kube: Kube, pools: Pools) -> None:
    await pools.apply(capability("browser"), pool("browser", minReplicas=1))
    pods = await until("a pod", lambda: pools.pods("browser"))
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    status = {
        "containerStatuses": [
            {"name": "worker", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": waits}
        ]
    }
    path = f"{paths.PODS.format(namespace=pools.namespace)}/{pods[0]['metadata']['name']}/status"

    await kube.patch(path, {"status": status})

    condition = await pools.until_condition("browser", "ScalingLimited", "True", reason="WorkersFailing")
    assert "ImagePullBackOff" in condition["message"]
    assert await until("its event", lambda: pools.events("browser", "WorkersFailing"))


async def test_a_crash_loop_is_one_condition_and_one_event_and_is_not_answered_with_more_workers(
    kube: Kube, pools: Pools, client: BrokerClient, operator: OperatorProcess
) -> None:
    """Between two crashes the container runs for a moment; that is not taken for recovery."""
    await pools.apply(capability("browser"), pool("browser", minReplicas=1))
    (pod,) = await until("a pod", lambda: pools.pods("browser"))
    path = f"{paths.PODS.format(namespace=pools.namespace)}/{pod['metadata']['name']}/status"

    async def publish(status: dict[str, Any]) -> None:
        await kube.patch(path, status, STRATEGIC)

    await publish(crashing(pod, 2, waiting=True))
    condition = await pools.until_condition("browser", "ScalingLimited", "True", reason="WorkersFailing")
    assert "CrashLoopBackOff" in condition["message"]
    await client.submit(pools.namespace, *[TaskSubmit(capability="browser")] * 5)
    for restarts, waiting in ((3, False), (3, True), (4, False)):
        await publish(crashing(pod, restarts, waiting=waiting))
        await operator_looks(operator, pools, "browser")
        found = await pools.deployment("browser")
        assert found is not None
        assert found["spec"]["replicas"] == 1
    assert len(await until("its event", lambda: pools.events("browser", "WorkersFailing"))) == 1

    await publish(running(pod, "10.250.0.1", ready=True))

    await settled(pools, "browser", replicas=5)


@pytest.mark.usefixtures("operator")
async def test_a_pool_and_its_capability_may_be_deleted_with_work_in_the_queue(
    namespace: str, pools: Pools, client: BrokerClient
) -> None:
    await pools.apply(capability("browser"), pool("browser"))
    await pools.until_ready("browser")
    await client.submit(namespace, *[TaskSubmit(capability="browser")] * 3)
    await settled(pools, "browser", replicas=3)

    await pools.delete("Capability", "browser")
    await pools.until_condition("browser", "Ready", "False", reason="UnknownCapability")
    await pools.delete("WorkerPool", "browser")

    async def gone() -> bool:
        try:
            return await pools.deployment("browser") is None and await pools.pool("browser") is None
        except KubeError as error:
            return error.code == 404

    await until("the pool's end", gone, seconds=60)
    queue = {one.name: one for one in (await client.stats()).capabilities}
    assert queue["browser"].ready == 3, "the broker drops no queue that still has tasks"
