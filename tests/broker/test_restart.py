"""A restart, polite or not, while leases are held: nobody who lives loses work, nobody who is dead keeps it."""

import asyncio

import aiohttp

from broker_process import eventually_async


async def test_live_workers_keep_their_leases_over_a_kill(lone_client, broker):
    await lone_client.configure({"name": "work", "lease_seconds": 5}, generation=2)
    await lone_client.submit(*[{"capability": "work"}] * 20)
    leases = (await lone_client.lease(slots=20))["leases"]
    beats = [{"token": lease["token"]} for lease in leases]

    for _ in range(3):
        await asyncio.to_thread(broker.restart)
        await lone_client.reconnect()
        statuses = (await lone_client.heartbeat(slots=20, leases=beats))["leases"]
        assert {status["status"] for status in statuses} == {"ok"}

    results = await lone_client.ack(*[lease["token"] for lease in leases])
    assert all(result == {"ok": True, "state": "completed"} for result in results)
    queue = await lone_client.queue()
    assert (queue["completed_total"], queue["reclaimed_total"]) == (20, 0)


async def test_a_worker_that_died_with_the_broker_loses_its_lease_afterwards(lone_client, broker):
    await lone_client.configure({"name": "work", "lease_seconds": 0.5}, generation=2)
    (submitted,) = await lone_client.submit({"capability": "work"})
    await lone_client.lease("dead")

    await asyncio.to_thread(broker.restart)
    await lone_client.reconnect()
    (lease,) = (await lone_client.lease("alive", wait=60))["leases"]

    assert lease["task"]["id"] == submitted["id"]
    assert lease["task"]["epoch"] == 2


async def test_a_stalled_broker_takes_nothing_from_live_workers(lone_client, broker):
    await lone_client.configure({"name": "work", "lease_seconds": 2}, generation=2)
    await lone_client.submit({"capability": "work"})
    (lease,) = (await lone_client.lease())["leases"]

    broker.pause()
    await asyncio.sleep(3.0)  # longer than the lease: the worker's heartbeats get no answer
    broker.resume()
    (status,) = (await lone_client.heartbeat(leases=[{"token": lease["token"]}]))["leases"]

    assert status["status"] == "ok"
    assert (await lone_client.queue())["reclaimed_total"] == 0


async def test_a_stall_before_a_heartbeat_is_read_counts_as_one_too(lone_client, broker):
    await lone_client.configure({"name": "work", "lease_seconds": 2}, generation=2)
    await lone_client.submit({"capability": "work"})
    (lease,) = (await lone_client.lease())["leases"]

    broker.pause()
    beating = asyncio.create_task(lone_client.heartbeat(leases=[{"token": lease["token"]}]))
    await asyncio.sleep(3.0)  # the heartbeat lies in the socket while the lease runs out
    broker.resume()

    assert (await beating)["leases"][0]["status"] == "ok"
    assert (await lone_client.ack(lease["token"]))[0] == {"ok": True, "state": "completed"}


async def test_a_submission_whose_reply_was_lost_is_not_doubled_by_sending_it_again(lone_client, broker):
    task = {"capability": "work", "payload": {"n": 1}, "idempotency_key": "once"}
    (first,) = await lone_client.submit(task)

    await asyncio.to_thread(broker.restart)
    await lone_client.reconnect()
    (again,) = await lone_client.submit(task)

    assert again == {"accepted": True, "id": first["id"], "state": "ready", "duplicate": True}
    assert (await lone_client.queue())["ready"] == 1


async def test_an_ack_whose_reply_was_lost_gets_the_same_answer_again(lone_client, broker):
    await lone_client.submit({"capability": "work"})
    (lease,) = (await lone_client.lease())["leases"]
    first = await lone_client.ack(lease["token"], result="r")

    await asyncio.to_thread(broker.restart)
    await lone_client.reconnect()

    assert await lone_client.ack(lease["token"], result="r") == first


async def test_a_lease_call_whose_reply_was_lost_gets_the_same_leases_again(lone_client, broker):
    await lone_client.submit({"capability": "work"}, {"capability": "work"})
    first = await lone_client.lease(slots=2, free=1, attempt="x")

    await asyncio.to_thread(broker.restart)
    await lone_client.reconnect()
    again = await lone_client.lease(slots=2, free=1, attempt="x")

    assert [lease["token"] for lease in again["leases"]] == [lease["token"] for lease in first["leases"]]


async def test_delays_dead_letters_totals_and_priorities_outlive_a_kill(lone_client, broker):
    late, low, high, doomed = await lone_client.submit(
        {"capability": "work", "delay_seconds": 3600},
        {"capability": "work", "priority": 1},
        {"capability": "work", "priority": 9},
        {"capability": "work", "priority": 9, "idempotency_key": "k"},
    )
    leases = (await lone_client.lease(slots=2))["leases"]
    await lone_client.ack(leases[0]["token"])
    await lone_client.nack(leases[1]["token"], retry=False)
    before = await lone_client.queue()

    await asyncio.to_thread(broker.restart)
    await lone_client.reconnect()

    after = await lone_client.queue()
    for field in ("ready", "delayed", "leased", "dead", "accepted_total", "completed_total", "failed_total"):
        assert after[field] == before[field], field
    assert (await lone_client.task(late["id"]))["state"] == "delayed"
    assert (await lone_client.task(high["id"]))["state"] == "completed"
    assert (await lone_client.task(doomed["id"]))["error"]["type"] == "Boom"
    (lease,) = (await lone_client.lease())["leases"]
    assert lease["task"]["id"] == low["id"]


async def test_a_parked_call_is_cut_by_a_kill_and_the_next_one_is_served(lone_client, broker):
    parked = asyncio.create_task(lone_client.lease(wait=60))

    async def waits():
        return [worker for worker in (await lone_client.stats())["workers"] if worker["parked"]]

    await eventually_async(waits)
    await asyncio.to_thread(broker.kill)
    (cut,) = await asyncio.gather(parked, return_exceptions=True)
    await asyncio.to_thread(broker.restart)
    await lone_client.reconnect()
    await lone_client.submit({"capability": "work"})

    assert isinstance(cut, aiohttp.ClientError)
    assert len((await lone_client.lease(wait=60))["leases"]) == 1
