"""Cordons over HTTP, as the operator uses them."""

from broker_process import eventually_async
from leadsman.wire.stats import StatsSnapshot
from leadsman.wire.workers import CordonReply, UncordonReply


async def test_a_cordoned_worker_finishes_what_it_has_and_gets_nothing_more(lone_client):
    await lone_client.submit({"capability": "work"}, {"capability": "work"})
    (lease,) = (await lone_client.lease("pod", slots=2, free=1))["leases"]
    (more,) = (await lone_client.lease("pod", slots=2, free=1, held=[lease["token"]]))["leases"]
    reply = CordonReply.model_validate(await _cordon(lone_client, ["pod"]))
    await lone_client.submit({"capability": "work"})

    (result,) = reply.results
    assert (result.outcome, result.leases, result.operation) == ("cordoned", 2, "op-1")
    assert reply.epoch == (await lone_client.stats())["epoch"]
    assert (await lone_client.ack(lease["token"]))[0]["ok"]
    held = [more["token"]]
    assert await lone_client.lease("pod", slots=2, free=1, wait=0.1, held=held) == {
        "worker": "cordoned",
        "leases": [],
    }

    stats = StatsSnapshot.model_validate(await lone_client.stats())
    assert [(worker.pod_uid, worker.state, worker.operation) for worker in stats.workers] == [
        ("pod", "cordoned", "op-1")
    ]
    assert [(cordon.pod_uid, cordon.operation, cordon.drain) for cordon in stats.cordons] == [
        ("pod", "op-1", False)
    ]

    lifted = UncordonReply.model_validate(
        await lone_client.ok("POST", "/v1/workers/uncordon", {"operation": "op-1", "pod_uids": ["pod", "other"]})
    )
    assert [each.lifted for each in lifted.results] == [True, False]
    assert len((await lone_client.lease("pod", slots=2, free=1, held=held))["leases"]) == 1


async def test_a_cordon_belongs_to_its_operation_and_outlives_the_broker(lone_client, broker):
    await _cordon(lone_client, ["pod"])
    (foreign,) = (await _cordon(lone_client, ["pod"], operation="op-2"))["results"]
    assert (foreign["outcome"], foreign["operation"]) == ("other_operation", "op-1")

    broker.restart()
    await lone_client.reconnect()

    assert (await lone_client.heartbeat("pod"))["worker"] == "cordoned"
    (cordon,) = StatsSnapshot.model_validate(await lone_client.stats()).cordons
    assert (cordon.pod_uid, cordon.operation) == ("pod", "op-1")
    assert 0 < cordon.expires_in_seconds <= 300


async def test_a_cordon_ends_by_itself(lone_client):
    await _cordon(lone_client, ["pod"], ttl=0.3)

    async def free():
        return (await lone_client.heartbeat("pod"))["worker"] == "active"

    assert await eventually_async(free)


async def test_a_worker_is_asked_to_drain(lone_client):
    await lone_client.heartbeat("pod")
    await _cordon(lone_client, ["pod"], drain=True)

    assert (await lone_client.heartbeat("pod"))["worker"] == "drain"
    assert (await lone_client.heartbeat("pod", incarnation="2"))["worker"] == "cordoned"


async def _cordon(client, pods, operation="op-1", ttl=300, drain=False):
    body = {"operation": operation, "pod_uids": pods, "ttl_seconds": ttl, "drain": drain}
    return await client.ok("POST", "/v1/workers/cordon", body)
