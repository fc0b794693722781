"""Pause and resume over HTTP."""

import asyncio

from broker_process import eventually_async
from leadsman.wire.capabilities import PauseReply


async def test_a_pause_holds_over_a_restart_until_the_resume(lone_client, broker):
    paused = PauseReply.model_validate(await lone_client.ok("POST", "capabilities/work/pause", {"reason": "down"}))
    await lone_client.submit({"capability": "work"})
    broker.restart()
    await lone_client.reconnect()
    again = PauseReply.model_validate(await lone_client.ok("POST", "capabilities/work/pause", {}))
    waiting = asyncio.create_task(lone_client.lease(wait=60))

    async def parked():
        return any(worker["parked"] for worker in (await lone_client.stats())["workers"])

    assert await eventually_async(parked)
    queue = await lone_client.queue()
    assert (queue["paused"], queue["ready"], queue["leasable"]) == (True, 1, 0)
    assert queue["blocked"] == {"CapabilityPaused": 1}
    assert (paused.changed, paused.reason) == (True, "down")
    assert again == paused.model_copy(update={"changed": False})

    resumed = PauseReply.model_validate(await lone_client.ok("POST", "capabilities/work/resume"))

    assert (resumed.paused, resumed.changed) == (False, True)
    assert len((await waiting)["leases"]) == 1


async def test_an_unknown_capability_is_named(lone_client):
    for call, body in (("pause", {}), ("resume", None)):
        reply = await lone_client.call("POST", f"capabilities/typo/{call}", body)
        assert (reply.status, reply.json["code"]) == (404, "unknown_capability")
        assert "typo" in reply.json["detail"]
