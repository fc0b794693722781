"""Leasing, keeping and settling, over HTTP."""

import asyncio

import pytest

from broker_process import BrokerClient, eventually_async, strictly
from leadsman.wire.leases import HeartbeatReply, LeaseReply, SettleReply

PAYLOAD = {"text": "süß \u0001 \"'\\", "numbers": [1, 1.5, -0.0, 10**30, 1e-7], "none": None, "nested": {"a": []}}


async def test_a_lease_carries_all_a_handler_needs(client):
    (submitted,) = await client.submit(
        {
            "capability": "work",
            "name": "crawl",
            "payload": PAYLOAD,
            "tenant": "acme",
            "class": "interactive",
            "max_attempts": 7,
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        }
    )

    reply = strictly(LeaseReply, await client.lease())

    (lease,) = reply.leases
    assert reply.worker == "active"
    assert (lease.lease_seconds, lease.heartbeat_seconds) == (30, 10)
    assert 0 < lease.expires_in_seconds <= 30
    task = lease.task
    assert (task.id, task.namespace, task.capability, task.name) == (
        submitted["id"],
        client.namespace,
        "work",
        "crawl",
    )
    assert (task.tenant, task.task_class, task.priority) == ("acme", "interactive", 5)
    assert (task.attempt, task.max_attempts, task.epoch) == (1, 7, 1)
    assert task.payload == PAYLOAD
    assert task.traceparent == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert task.checkpoint is None


async def test_an_ack_completes_the_task_with_its_result(client):
    (submitted,) = await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    body = {"acks": [{"token": lease["token"], "result": PAYLOAD}]}
    reply = strictly(SettleReply, await client.ok("POST", "leases/ack", body))

    assert (reply.results[0].ok, reply.results[0].state) == (True, "completed")
    view = await client.task(submitted["id"])
    assert (view["state"], view["result"]) == ("completed", PAYLOAD)


async def test_a_repeated_ack_gets_the_same_answer_and_another_settlement_does_not(client):
    await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    first, again = await client.ack(lease["token"]), await client.ack(lease["token"])
    nacked = await client.nack(lease["token"])

    assert first == again
    assert (nacked["ok"], nacked["code"]) == (False, "already_settled")


async def test_settlements_are_answered_one_by_one_in_order(client):
    await client.submit({"capability": "work"}, {"capability": "work"})
    one, two = (await client.lease(slots=2))["leases"]

    results = await client.ack(two["token"], "0000000000990000cafe:1:00", "nonsense", one["token"])

    assert [result["ok"] for result in results] == [True, False, False, True]
    assert [results[1]["code"], results[2]["code"]] == ["unknown_task", "unknown_task"]


async def test_a_nack_is_tried_again_and_hands_on_its_checkpoint(client):
    await client.configure({"name": "work", "backoff_seconds": 0}, generation=2)
    (submitted,) = await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    nacked = await client.nack(lease["token"], checkpoint={"page": 3})
    (second,) = (await client.lease(wait=60))["leases"]

    assert nacked["ok"]
    assert second["token"] != lease["token"]
    assert (second["task"]["attempt"], second["task"]["epoch"]) == (2, 2)
    assert second["task"]["checkpoint"] == {"page": 3}
    view = await client.task(submitted["id"])
    assert view["attempts"] == {"deliveries": 2, "failures": 1, "reclaims": 0, "releases": 0}
    assert view["worker"] == "pod-1.1"


async def test_a_release_spends_no_attempt(client):
    (submitted,) = await client.submit({"capability": "work", "max_attempts": 1})
    (lease,) = (await client.lease())["leases"]

    released = await client.release(lease["token"], reason="draining", checkpoint=None)
    (second,) = (await client.lease(wait=60))["leases"]

    assert (released["ok"], second["task"]["attempt"]) == (True, 1)
    assert (await client.task(submitted["id"]))["attempts"]["releases"] == 1


async def test_a_checkpoint_of_a_heartbeat_outlives_the_broker(lone_client, broker):
    client = lone_client
    await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    reply = strictly(
        HeartbeatReply, await client.heartbeat(leases=[{"token": lease["token"], "checkpoint": [1, 2]}])
    )
    broker.restart()
    await client.reconnect()
    released = await client.release(lease["token"])
    (second,) = (await client.lease(wait=60))["leases"]

    assert (reply.worker, reply.leases[0].status) == ("active", "ok")
    assert released["ok"]
    assert second["task"]["checkpoint"] == [1, 2]


async def test_heartbeats_keep_a_lease_far_beyond_its_length(client):
    await client.configure({"name": "work", "lease_seconds": 2}, generation=2)
    await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    for _ in range(12):
        await asyncio.sleep(0.4)
        (status,) = (await client.heartbeat(leases=[{"token": lease["token"]}]))["leases"]
        assert status["status"] == "ok"

    assert (await client.queue())["reclaimed_total"] == 0
    assert (await client.ack(lease["token"]))[0]["ok"]


async def test_a_silent_worker_loses_its_lease_and_another_gets_the_task(client):
    # A busy machine may keep the broker from its clock for an eighth of a second, which of a lease of half a second
    # is a stall: its loss would not be counted.
    await client.configure({"name": "work", "lease_seconds": 4}, generation=2)
    (submitted,) = await client.submit({"capability": "work"})
    (lost,) = (await client.lease("dead-pod"))["leases"]

    (second,) = (await client.lease("live-pod", wait=60))["leases"]
    stale = await client.ack(lost["token"])
    beat = await client.heartbeat("dead-pod", leases=[{"token": lost["token"]}])
    won = await client.ack(second["token"])

    assert second["task"]["id"] == submitted["id"]
    assert (stale[0]["ok"], stale[0]["code"]) == (False, "lease_lost")
    assert beat["leases"][0]["status"] == "lease_lost"
    assert won[0]["ok"]
    view = await client.task(submitted["id"])
    assert (view["state"], view["attempts"]["reclaims"]) == ("completed", 1)


async def test_a_late_ack_before_redelivery_completes_the_task(client):
    await client.configure({"name": "work", "lease_seconds": 0.3}, generation=2)
    (submitted,) = await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    async def reclaimed():
        return (await client.queue())["reclaimed_total"] == 1

    await eventually_async(reclaimed)
    (settled,) = await client.ack(lease["token"])

    assert settled == {"ok": True, "state": "completed", "late": True}
    assert (await client.task(submitted["id"]))["state"] == "completed"


async def test_a_waiting_call_is_woken_by_a_new_task(client):
    waiting = asyncio.create_task(client.lease(wait=60))
    await _parked(client, 1)

    (submitted,) = await client.submit({"capability": "work"})

    (lease,) = (await waiting)["leases"]
    assert lease["task"]["id"] == submitted["id"]


async def test_a_waiting_call_is_woken_by_a_delay_that_ends(client):
    await client.submit({"capability": "work", "delay_seconds": 0.3})

    assert len((await client.lease(wait=60))["leases"]) == 1


async def test_a_waiting_call_is_woken_by_a_redrive(client):
    (submitted,) = await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]
    await client.nack(lease["token"], retry=False)
    waiting = asyncio.create_task(client.lease(wait=60))
    await _parked(client, 1)

    await client.ok("POST", "capabilities/work/redrive", {"ids": [submitted["id"]]})

    assert (await waiting)["leases"][0]["task"]["id"] == submitted["id"]


async def test_a_waiting_call_is_woken_by_a_queue_that_is_made_later(client):
    waiting = asyncio.create_task(client.lease(capabilities=["later"], wait=60))
    await _parked(client, 1)

    await client.configure({"name": "work"}, {"name": "later"}, generation=2)
    await client.submit({"capability": "later"})

    assert len((await waiting)["leases"]) == 1


async def test_a_waiting_call_ends_empty_when_its_time_is_over(client):
    assert await client.lease(wait=0.1) == {"worker": "active", "leases": []}


async def test_large_tasks_given_in_the_step_that_accepts_them_are_all_delivered(start_broker):
    """More than is kept in memory for tasks that were accepted a moment ago."""
    broker = start_broker(args=["--max-body-bytes", "67108864"])
    async with BrokerClient(broker.url) as client:
        await client.configure({"name": "work"})
        waiting = asyncio.create_task(client.lease(slots=100, wait=60))
        await _parked(client, 1)
        payloads = [f"{number}" + "x" * 250_000 for number in range(100)]
        await client.submit(*[{"capability": "work", "payload": payload} for payload in payloads])
        assert [lease["task"]["payload"] for lease in (await waiting)["leases"]] == payloads


async def test_a_call_gets_no_more_than_its_free_slots(client):
    await client.submit(*[{"capability": "work"}] * 5)

    assert len((await client.lease(slots=4, free=3))["leases"]) == 3


async def test_a_worker_of_two_queues_is_served_from_both(client):
    await client.configure({"name": "work"}, {"name": "other"}, generation=2)
    await client.submit({"capability": "work"}, {"capability": "work"}, {"capability": "other"})

    leases = (await client.lease(capabilities=["work", "other"], slots=2))["leases"]

    assert {lease["task"]["capability"] for lease in leases} == {"work", "other"}


async def test_repeating_an_attempt_returns_the_same_leases(client):
    await client.submit({"capability": "work"}, {"capability": "work"})
    first = await client.lease(slots=2, free=1, attempt="x")

    again = await client.lease(slots=2, free=1, attempt="x")

    assert [lease["token"] for lease in again["leases"]] == [lease["token"] for lease in first["leases"]]
    assert (await client.queue())["ready"] == 1


async def test_a_newer_call_displaces_the_older_one_of_the_same_worker(client):
    older = asyncio.create_task(client.lease(wait=60, attempt="1"))
    await _parked(client, 1)

    newer = asyncio.create_task(client.lease(wait=60, attempt="2"))

    assert (await older)["leases"] == []
    await client.submit({"capability": "work"})
    assert len((await newer)["leases"]) == 1


async def test_a_gone_socket_gets_nothing(client, shared_broker):
    async with BrokerClient(shared_broker.url, namespace=client.namespace) as dying:
        doomed = asyncio.create_task(dying.lease("doomed", wait=60))
        await _parked(client, 1)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
    await _parked(client, 0)

    await client.submit({"capability": "work"})

    assert len((await client.lease("living"))["leases"]) == 1


async def test_a_lease_whose_reply_was_lost_comes_back_after_two_lists_without_it(client):
    (submitted,) = await client.submit({"capability": "work"})
    await client.lease(slots=1, attempt="lost")

    async def returned():
        await client.heartbeat(leases=[])
        return (await client.queue())["ready"] == 1

    await eventually_async(returned)
    view = await client.task(submitted["id"])
    assert view["attempts"]["reclaims"] == view["attempts"]["releases"] == view["attempts"]["failures"] == 0


async def test_a_draining_worker_gets_nothing_new_and_finishes_what_it_holds(client):
    await client.submit({"capability": "work"}, {"capability": "work"})
    (lease,) = (await client.lease(slots=2, free=1))["leases"]

    beat = await client.heartbeat(slots=2, draining=True, leases=[{"token": lease["token"]}])
    more = await client.lease(slots=2, free=1, held=[lease["token"]])

    assert (beat["worker"], beat["leases"][0]["status"]) == ("draining", "ok")
    assert more == {"worker": "draining", "leases": []}
    assert (await client.ack(lease["token"]))[0]["ok"]


async def test_a_token_is_worth_nothing_in_another_namespace(client, shared_broker):
    await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    async with BrokerClient(shared_broker.url, namespace="other") as thief:
        (stolen,) = await thief.ack(lease["token"])
        beat = await thief.heartbeat(leases=[{"token": lease["token"]}])

    assert (stolen["ok"], stolen["code"]) == (False, "unknown_task")
    assert beat["leases"][0]["status"] == "lease_lost"
    assert (await client.ack(lease["token"]))[0]["ok"]


async def test_many_waiting_workers_share_many_tasks_without_loss(client, shared_broker):
    async def work(number):
        async with BrokerClient(shared_broker.url, namespace=client.namespace) as worker:
            while len(done) < 300:
                leases = (await worker.lease(f"pod-{number}", wait=1))["leases"]
                done.extend(lease["task"]["id"] for lease in leases)
                if leases:
                    await worker.ack(*[lease["token"] for lease in leases])

    done = []
    workers = [asyncio.create_task(work(number)) for number in range(20)]
    submitted = [result["id"] for result in await client.submit(*[{"capability": "work"}] * 300)]

    await asyncio.gather(*workers)
    assert sorted(done) == submitted


async def test_a_broken_connection_in_the_middle_of_a_body_does_no_harm(client, shared_broker):
    reader, writer = await asyncio.open_connection("127.0.0.1", shared_broker.port)
    writer.write(b'POST /v1/namespaces/default/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"tasks": [')
    await writer.drain()
    writer.close()
    await writer.wait_closed()

    assert (await client.submit({"capability": "work"}))[0]["accepted"]
    assert await reader.read() == b""


async def _parked(client, number):
    async def parked():
        workers = (await client.stats())["workers"]
        return sum(worker["parked"] for worker in workers if worker["namespace"] == client.namespace) == number

    await eventually_async(parked, what=f"{number} parked calls")


async def test_what_is_stored_once_outlives_the_broker_and_is_handed_to_the_next_attempt(lone_client, broker):
    await lone_client.submit({"capability": "work"})
    (lease,) = (await lone_client.lease())["leases"]
    assert "once" not in lease["task"]

    stored = await _once(lone_client, lease, "pay/1", {"receipt": [1, None, "é"]})
    repeated = await _once(lone_client, lease, "pay/1", "another")
    await _once(lone_client, lease, "mail", None)
    broker.restart()
    await lone_client.reconnect()
    after = await _once(lone_client, lease, "pay/1", 3)
    await lone_client.release(lease["token"])
    (second,) = (await lone_client.lease())["leases"]
    late = await _once(lone_client, lease, "pay/1", 4)

    assert stored == {"ok": True, "first": True, "value": {"receipt": [1, None, "é"]}}
    assert repeated == after == {**stored, "first": False}
    assert (second["task"]["once"], second["task"]["payload"]) == (
        {"pay/1": {"receipt": [1, None, "é"]}, "mail": None},
        None,
    )
    assert (late["ok"], late["code"]) == (False, "lease_lost")


async def test_a_value_stored_by_a_task_accepted_a_moment_ago_is_handed_on(client):
    await client.submit({"capability": "work", "payload": 5})
    (lease,) = (await client.lease())["leases"]
    await _once(client, lease, "k", 1)
    await client.release(lease["token"])
    (second,) = (await client.lease())["leases"]
    assert (second["task"]["once"], second["task"]["payload"]) == ({"k": 1}, 5)
    await client.ack(second["token"])


async def test_a_value_that_is_too_large_is_refused_in_words(client):
    await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]
    refused = await _once(client, lease, "k", "x" * 20_000)
    assert (refused["ok"], refused["code"]) == (False, "value_too_large")
    assert "16384" in refused["detail"]
    await client.ack(lease["token"])


async def test_a_lease_without_progress_is_not_renewed(lone_client):
    await lone_client.configure({"name": "work", "lease_seconds": 60, "progress_timeout_seconds": 2}, generation=9)
    await lone_client.submit({"capability": "work"})
    (lease,) = (await lone_client.lease())["leases"]
    assert lease["progress_timeout_seconds"] == 2

    async def status(number):
        item = {"token": lease["token"], "progress_seq": number}
        return (await lone_client.heartbeat(leases=[item]))["leases"][0]["status"]

    assert await status(1) == "ok"

    async def refused():
        return await status(1) == "no_progress"

    assert await eventually_async(refused)
    assert await status(2) == "ok"
    view = await lone_client.ok("GET", f"tasks/{lease['task']['id']}")
    assert [entry["event"] for entry in view["history"]] == ["accepted", "leased", "no_progress"]


async def _once(client, lease, key, value):
    return await client.ok("POST", "leases/once", {"token": lease["token"], "key": key, "value": value})
