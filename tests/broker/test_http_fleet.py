"""The operator's side over HTTP: capabilities and fences."""

import asyncio

from broker_process import BrokerClient, eventually_async
from leadsman.wire.capabilities import CapabilitiesView, CapabilityConfig
from leadsman.wire.stats import StatsSnapshot
from leadsman.wire.workers import FenceReply, UnfenceReply


async def test_capabilities_come_back_with_their_defaults(client):
    await client.configure({"name": "work", "lease_seconds": 120}, {"name": "other"}, generation=5)

    view = CapabilitiesView.model_validate(await client.ok("GET", "capabilities"))

    assert view.generation == 5
    assert {capability.name: capability for capability in view.capabilities} == {
        "work": CapabilityConfig(name="work", lease_seconds=120),
        "other": CapabilityConfig(name="other"),
    }


async def test_an_older_generation_changes_nothing(client):
    await client.configure({"name": "work", "max_attempts": 2}, generation=7)

    reply = await client.configure({"name": "work", "max_attempts": 9}, generation=6)

    assert reply == {"generation": 7, "applied": False, "retained": []}
    (capability,) = (await client.ok("GET", "capabilities"))["capabilities"]
    assert capability["max_attempts"] == 2


async def test_a_queue_with_tasks_outlives_its_configuration(client):
    (submitted,) = await client.submit({"capability": "work"})

    reply = await client.configure({"name": "other"}, generation=2)
    (refused,) = await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    assert reply["retained"] == ["work"]
    assert refused["code"] == "unknown_capability"
    assert lease["task"]["id"] == submitted["id"]
    assert (await client.ack(lease["token"]))[0]["ok"]


async def test_namespaces_do_not_see_each_other(client, shared_broker):
    async with BrokerClient(shared_broker.url, namespace=f"{client.namespace}-other") as other:
        await other.configure({"name": "work"})
        await other.submit({"capability": "work"})

        assert (await client.lease())["leases"] == []
        assert (await client.queue())["ready"] == 0
        assert len((await other.lease())["leases"]) == 1


async def test_the_stats_of_a_namespace_show_nothing_of_another(client, shared_broker):
    our_pod, their_pod = pod_of(client, "ours"), pod_of(client, "theirs")
    async with BrokerClient(shared_broker.url, namespace=f"{client.namespace}-other") as other:
        await other.configure({"name": "secret"})
        await other.lease(their_pod, capabilities=["secret"])
        await client.lease(our_pod)
        await _fence(client, their_pod)
        await _fence(client, our_pod)

        ours = StatsSnapshot.model_validate(await client.ok("GET", "stats"))
        theirs = StatsSnapshot.model_validate(await other.ok("GET", "stats"))

    for stats, queue, pod in ((ours, "work", our_pod), (theirs, "secret", their_pod)):
        assert [found.name for found in stats.capabilities] == [queue]
        assert [found.pod_uid for found in stats.workers] == [pod]
        assert [found.pod_uid for found in stats.fences] == [pod]


async def test_capabilities_outlive_the_broker(lone_client, broker):
    broker.restart()
    await lone_client.reconnect()

    assert (await lone_client.ok("GET", "capabilities"))["capabilities"][0]["name"] == "work"


async def test_an_idle_worker_is_fenced_and_gets_nothing(client):
    idle = pod_of(client, "idle")
    waiting = asyncio.create_task(client.lease(idle, wait=60))
    await _known(client, idle)

    reply = FenceReply.model_validate(await _fence(client, idle))
    await client.submit({"capability": "work"})

    (result,) = reply.results
    assert (result.outcome, result.operation) == ("fenced", "op-1")
    assert await waiting == {"worker": "fenced", "leases": []}
    assert await client.lease(idle, wait=0.1) == {"worker": "fenced", "leases": []}
    assert (await client.heartbeat(idle))["worker"] == "fenced"
    assert reply.epoch == (await client.stats())["epoch"]


async def test_a_busy_worker_is_not_fenced_and_goes_on(client):
    busy = pod_of(client, "busy")
    await client.submit({"capability": "work"}, {"capability": "work"})
    (lease,) = (await client.lease(busy, slots=2, free=1))["leases"]

    (result,) = (await _fence(client, busy))["results"]

    assert (result["outcome"], result["leases"]) == ("busy", 1)
    assert len((await client.lease(busy, slots=2, free=1, held=[lease["token"]]))["leases"]) == 1


async def test_a_fence_belongs_to_its_operation(client):
    pod = pod_of(client, "pod")
    await _fence(client, pod, operation="op-1")

    (renewed,) = (await _fence(client, pod, operation="op-1"))["results"]
    (foreign,) = (await _fence(client, pod, operation="op-2"))["results"]
    (kept,) = (await _unfence(client, pod, operation="op-2"))["results"]
    (lifted,) = (await _unfence(client, pod, operation="op-1"))["results"]

    assert (renewed["outcome"], foreign["outcome"]) == ("fenced", "other_operation")
    assert foreign["operation"] == "op-1"
    assert (kept["lifted"], lifted["lifted"]) == (False, True)


async def test_a_fence_on_a_pod_never_seen_binds_whoever_comes(client):
    future = pod_of(client, "future")
    await _fence(client, future)
    await client.submit({"capability": "work"})

    assert await client.lease(future, incarnation="7", wait=0.1) == {"worker": "fenced", "leases": []}
    assert len((await client.lease("another"))["leases"]) == 1


async def test_a_fence_outlives_the_broker(lone_client, broker):
    await _fence(lone_client, "pod")
    epoch = (await lone_client.stats())["epoch"]

    broker.restart()
    await lone_client.reconnect()

    stats = StatsSnapshot.model_validate(await lone_client.stats())
    assert stats.epoch != epoch
    assert [(fence.pod_uid, fence.operation) for fence in stats.fences] == [("pod", "op-1")]
    assert (await lone_client.lease("pod", wait=0.1))["worker"] == "fenced"


async def test_a_fence_ends_by_itself(client):
    pod = pod_of(client, "pod")
    await _fence(client, pod, ttl=0.3)

    async def free():
        return (await client.heartbeat(pod))["worker"] == "active"

    assert await eventually_async(free)
    assert pod not in {fence["pod_uid"] for fence in (await client.stats())["fences"]}


async def test_a_lifted_fence_lets_the_worker_work(client):
    pod = pod_of(client, "pod")
    await _fence(client, pod)
    await client.submit({"capability": "work"})

    UnfenceReply.model_validate(await _unfence(client, pod))

    assert len((await client.lease(pod))["leases"]) == 1


async def test_one_call_fences_many_and_answers_in_order(client):
    a, b, c = (pod_of(client, name) for name in "abc")
    await client.submit({"capability": "work"})
    await client.lease(b)

    results = (await client.ok("POST", "/v1/workers/fence", _operation([c, b, a])))["results"]

    assert [(result["pod_uid"], result["outcome"]) for result in results] == [
        (c, "fenced"),
        (b, "busy"),
        (a, "fenced"),
    ]


def pod_of(client, name):
    """A pod that no other test knows: fences are for every namespace of the broker that the tests share."""
    return f"{client.namespace}-{name}"


def _operation(pods, operation="op-1", ttl=300):
    return {"operation": operation, "pod_uids": pods, "ttl_seconds": ttl}


async def _fence(client, pod, operation="op-1", ttl=300):
    return await client.ok("POST", "/v1/workers/fence", _operation([pod], operation, ttl))


async def _unfence(client, pod, operation=None):
    return await client.ok("POST", "/v1/workers/unfence", {"operation": operation, "pod_uids": [pod]})


async def _known(client, pod):
    async def known():
        return [worker for worker in (await client.stats())["workers"] if worker["pod_uid"] == pod]

    await eventually_async(known)


async def test_a_generation_beyond_what_a_store_can_hold_is_refused_and_does_no_harm(client):
    body = {"generation": 2**63, "capabilities": [{"name": "work"}]}
    refused = await client.call("PUT", "capabilities", body)
    assert (refused.status, refused.json["errors"][0]["field"]) == (422, "generation")
    taken = await client.ok("PUT", "capabilities", {**body, "generation": 2**63 - 1})
    assert taken["generation"] == 2**63 - 1
