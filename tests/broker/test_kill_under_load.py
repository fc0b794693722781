"""kill -9 of the broker at random moments under load, and then every task is accounted for.

Producers send each task with an idempotency key until they have an answer. Workers lease, hold, renew and settle,
and repeat what got no answer. What they saw is compared with what the broker says at the end.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
import pytest

from broker_process import BrokerClient, eventually_async

LEASE_SECONDS = 6
PRODUCERS, WORKERS, SLOTS = 3, 6, 4
POISON_EVERY = 17


@dataclass
class Seen:
    """What producers and workers know for certain, because the broker said so."""

    accepted: dict[str, str] = field(default_factory=dict)
    """Idempotency key -> task id."""
    acked: set[str] = field(default_factory=set)
    deliveries: list[tuple[str, int, str]] = field(default_factory=list)
    """(task id, epoch, worker), as leased."""
    after_ack: list[str] = field(default_factory=list)
    """Tasks that were leased by anyone after an ack of theirs was answered."""
    lost: list[str] = field(default_factory=list)
    """Leases that a live worker was told it had lost."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)


async def insist(call, *arguments, **options):
    """Repeat a call until the broker answers it."""
    while True:
        try:
            return await call(*arguments, **options)
        except (aiohttp.ClientError, ConnectionError):
            await asyncio.sleep(0.02)


async def produce(url, seen, number):
    async with BrokerClient(url) as client:
        batch = 0
        while not seen.stop.is_set():
            keys = [f"{number}-{batch}-{item}" for item in range(5)]
            tasks = [{"capability": "work", "payload": key, "idempotency_key": key} for key in keys]
            for key, result in zip(keys, await insist(client.submit, *tasks), strict=True):
                assert result["accepted"], result
                seen.accepted[key] = result["id"]
            batch += 1
            await asyncio.sleep(0.02)


async def work(url, seen, number, rand):
    name = f"pod-{number}"
    held: dict[str, asyncio.Task] = {}
    told: set[str] = set()  # lost, says a heartbeat; an ack that overtook it may have been the cause
    finished = 0

    async with BrokerClient(url) as client, BrokerClient(url) as pulse:

        async def run(lease):
            token, task = lease["token"], lease["task"]
            await asyncio.sleep(rand.uniform(0, 0.25))
            if int(task["payload"].split("-")[1]) % POISON_EVERY == 0:
                result = await insist(client.nack, token, retry=False)
            else:
                (result,) = await insist(client.ack, token, result=task["payload"])
                if result["ok"]:
                    seen.acked.add(task["id"])
            if result["ok"]:
                told.discard(token)
            else:
                seen.lost.append(f"{name} {token} {result}")
            del held[token]

        async def beat():
            while True:
                leases = [{"token": token} for token in held]
                reply = await insist(pulse.heartbeat, name, slots=SLOTS, leases=leases)
                for status in reply["leases"]:
                    if status["status"] != "ok" and status["token"] in held:
                        told.add(status["token"])
                await asyncio.sleep(0.5)

        beating = asyncio.create_task(beat())
        try:
            while not seen.stop.is_set() or held:
                if len(held) >= SLOTS or seen.stop.is_set():
                    await asyncio.sleep(0.01)
                    continue
                finished += 1
                reply = await insist(
                    client.lease,
                    name,
                    slots=SLOTS,
                    free=SLOTS - len(held),
                    wait=0.5,
                    attempt=f"a{finished}",
                    held=list(held),
                )
                for lease in reply["leases"]:
                    task = lease["task"]
                    if lease["token"] in held:
                        continue
                    if task["id"] in seen.acked:
                        seen.after_ack.append(task["id"])
                    seen.deliveries.append((task["id"], task["epoch"], name))
                    held[lease["token"]] = asyncio.create_task(run(lease))
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            seen.lost.extend(told)


@pytest.mark.parametrize("seed", [2026])
async def test_every_task_is_accounted_for_after_twenty_kills(lone_client, broker, seed):
    rand = random.Random(seed)
    await lone_client.configure({"name": "work", "lease_seconds": LEASE_SECONDS}, generation=2)
    seen = Seen()
    producing = [asyncio.create_task(produce(broker.url, seen, number)) for number in range(PRODUCERS)]
    working = [asyncio.create_task(work(broker.url, seen, number, rand)) for number in range(WORKERS)]

    for _ in range(20):
        await asyncio.sleep(rand.uniform(0.2, 1.2))
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.restart)

    seen.stop.set()
    await asyncio.gather(*producing)
    await asyncio.gather(*working)
    await lone_client.reconnect()
    leftovers = await drain(lone_client)

    assert len(seen.accepted) > 300
    assert len(set(seen.accepted.values())) == len(seen.accepted), "two keys got one task"
    assert seen.lost == [], "a live worker lost a lease"
    assert seen.after_ack == [], "an acked task ran again"
    twice = [delivery for delivery, count in Counter(seen.deliveries).items() if count > 1]
    assert twice == [], "one delivery was given out twice"

    await check_outcomes(lone_client, seen, leftovers)


async def check_outcomes(client, seen, leftovers):
    """Every accepted task has exactly one end, the one that its worker was told."""
    ends = Counter()
    for key, task_id in seen.accepted.items():
        view = await client.task(task_id)
        ends[view["state"]] += 1
        poison = int(key.split("-")[1]) % POISON_EVERY == 0
        if task_id in leftovers:
            assert view["state"] == "completed"
        elif poison:
            assert (view["state"], view["error"]["type"]) == ("dead", "Boom"), view
        else:
            assert (view["state"], view["result"]) == ("completed", key), view
        assert view["attempts"]["reclaims"] == 0, view
    queue = await client.queue()
    assert (queue["ready"], queue["delayed"], queue["leased"]) == (0, 0, 0)
    # What a producer sent and got no answer for before it stopped does not exist: each insisted on an answer.
    assert queue["accepted_total"] == len(seen.accepted)
    assert (queue["completed_total"], queue["dead"]) == (ends["completed"], ends["dead"])
    assert queue["completed_total"] + queue["dead"] == len(seen.accepted)


async def drain(client):
    """Complete what is left; returns the ids."""
    done = set()

    async def empty():
        leases = (await client.lease("drain", slots=100))["leases"]
        await client.heartbeat("drain", slots=100)
        if leases:
            done.update(lease["task"]["id"] for lease in leases)
            await client.ack(*[lease["token"] for lease in leases])
        queue = await client.queue()
        return queue["ready"] + queue["delayed"] + queue["leased"] == 0

    await eventually_async(empty, what="an empty queue", seconds=60)
    return done
