"""Mistakes are refused where they are made, or shown as a condition and an event; nothing else is disturbed."""

import json
from typing import Any

import pytest

from fleet import BrokerClient, Kube, KubeError, recorded, until
from fleet.manifests import capability, pool
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit

# --- at apply


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"minReplicas": 5, "maxReplicas": 2}, "minReplicas"),
        ({"maxReplicas": -1}, "maxReplicas"),
        ({"slotsPerWorker": 0}, "slotsPerWorker"),
        ({"capabilities": []}, "capabilities"),
        ({"capabilities": ["browser", "browser"]}, "capabilities"),
        ({"scaling": {"mode": "Sometimes"}}, "mode"),
        ({"image": None}, "image"),
        ({"deploymentRef": {"name": "mine"}}, "exactly one"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
async def test_a_pool_that_cannot_be_meant_is_refused_at_apply(
    pools: Pools, spec: dict[str, Any], complaint: str
) -> None:
    manifest = pool("browser", **spec)
    manifest["spec"] = {key: value for key, value in manifest["spec"].items() if value is not None}

    with pytest.raises(KubeError) as refusal:
        await pools.apply(manifest)

    # A duplicate in a set already breaks server-side apply's own parser, which calls that an internal error.
    assert refusal.value.code in {422, 500}
    assert complaint in refusal.value.message


@pytest.mark.usefixtures("crds")
async def test_a_misspelt_field_is_named(pools: Pools) -> None:
    with pytest.raises(KubeError, match="maxReplica"):
        await pools.apply(pool("browser", maxReplica=3))


# --- at the operator


@pytest.mark.usefixtures("operator")
async def test_an_unknown_capability_is_a_condition_and_an_event_until_it_exists(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient
) -> None:
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("code"), pool("code"), pool("browser", capabilities=["browsr"]))

        condition = await pools.until_condition("browser", "Ready", "False", reason="UnknownCapability")
        assert "browsr" in condition["message"]
        (event,) = await until("its event", lambda: pools.events("browser", "UnknownCapability"))
        assert event["type"] == "Warning"
        assert "browsr" in event["note"]

        await pools.until_ready("code")
        await client.submit(namespace, *[TaskSubmit(capability="code")] * 3)
        await history.until("the other pool's workers", lambda sizes: sizes.replicas("code") == [0, 3])

        await pools.apply(capability("browsr"))
        await pools.until_ready("browser")


BROKEN_TEMPLATES: dict[str, dict[str, Any]] = {
    # A 422: the Deployment is not valid.
    "VolumeThatIsNotThere": {
        "name": "worker",
        "image": "any",
        "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}],
    },
    # A 500 from server-side apply: the field does not exist.
    "FieldThatDoesNotExist": {"name": "worker", "image": "any", "imagee": "typo"},
}


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("container", BROKEN_TEMPLATES.values(), ids=BROKEN_TEMPLATES)
async def test_a_template_the_server_refuses_is_a_condition_and_an_event_until_it_is_mended(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient, container: dict[str, Any]
) -> None:
    broken = pool("browser", template={"spec": {"containers": [container]}})
    del broken["spec"]["image"]
    async with recorded(kube, namespace) as history:
        await pools.apply(capability("code"), capability("browser"), pool("code"), broken)

        condition = await pools.until_condition("browser", "Ready", "False", reason="TemplateRefused")
        assert "nowhere" in condition["message"] or "imagee" in condition["message"]
        (event,) = await until("its event", lambda: pools.events("browser", "TemplateRefused"))
        assert event["type"] == "Warning"
        assert await pools.deployment("browser") is None

        await pools.until_ready("code")
        await client.submit(namespace, *[TaskSubmit(capability="code")] * 3)
        await history.until("the other pool's workers", lambda sizes: sizes.replicas("code") == [0, 3])

        mended = {"name": "worker", "image": "any"}
        broken["spec"]["template"]["spec"]["containers"] = [mended]
        await pools.apply(broken)
        await pools.until_ready("browser")
        await client.submit(namespace, TaskSubmit(capability="browser"))
        await history.until("its first worker", lambda sizes: sizes.replicas("browser") == [0, 1])


# --- at the broker


async def configured(client: BrokerClient) -> bool:
    return any(one.name == "browser" and one.configured for one in (await client.stats()).capabilities)


GOOD = {"capability": "browser"}


def tasks(*items: dict[str, Any]) -> bytes:
    return json.dumps({"tasks": items}).encode()


MALFORMED: list[tuple[bytes, int, str, str]] = [
    (b"{", 400, "invalid_json", ""),
    (b'{"tasks": [{"capability": "browser", "payload": NaN}]}', 400, "invalid_json", ""),
    (b"[]", 422, "invalid_request", ""),
    (b"{}", 422, "invalid_request", "tasks"),
    (tasks(), 422, "invalid_request", "tasks"),
    (tasks({}), 422, "invalid_request", "capability"),
    (tasks(GOOD | {"capability": 7}), 422, "invalid_request", "capability"),
    (tasks(GOOD | {"priority": 12}), 422, "invalid_request", "priority"),
    (tasks(GOOD | {"prio": 1}), 422, "invalid_request", "prio"),
    (tasks(GOOD, {}), 422, "invalid_request", "capability"),
    (tasks(*[GOOD] * 1001), 422, "invalid_request", "tasks"),
    (tasks()[:-2] + b"[" * 100_000 + b"]" * 100_000 + b"]}", 400, "invalid_json", ""),
]


@pytest.mark.usefixtures("operator")
async def test_a_request_of_the_wrong_shape_is_refused_by_name_and_nothing_of_it_is_queued(
    namespace: str, pools: Pools, client: BrokerClient
) -> None:
    await pools.apply(capability("browser"))
    await until("the queue", lambda: configured(client))

    for body, status, code, complaint in MALFORMED:
        got, problem = await client.post_raw(f"/v1/namespaces/{namespace}/tasks", body)
        assert (got, problem["code"]) == (status, code), body[:100]
        assert complaint in json.dumps(problem)

    (queue,) = (await client.stats()).capabilities
    assert queue.accepted_total == 0


@pytest.mark.usefixtures("operator")
async def test_each_bad_task_of_a_batch_is_refused_alone(
    namespace: str, pools: Pools, client: BrokerClient
) -> None:
    await pools.apply(capability("browser", admission={"maxPayloadBytes": 1000}))
    await until("the queue", lambda: configured(client))

    reply = await client.submit(
        namespace,
        TaskSubmit(capability="browser", payload="fits"),
        TaskSubmit(capability="browser", payload="x" * 2000),
        TaskSubmit(capability="nosuch"),
        TaskSubmit(capability="browser", payload="fits too"),
    )

    assert [result.accepted for result in reply.results] == [True, False, False, True]
    large, unknown = reply.results[1:3]
    assert large.code == "payload_too_large"
    assert "1000" in (large.reason or "")
    assert unknown.code == "unknown_capability"
    assert "nosuch" in (unknown.reason or "")
