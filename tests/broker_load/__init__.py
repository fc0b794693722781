"""Producers and workers that insist: they repeat what got no answer, and remember what they were told.

Producers send each task with an idempotency key until they have an answer. Workers lease, hold, renew and settle.
What they saw is compared with what the broker says at the end: every task is accounted for.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp

from broker_process import BrokerClient, Reply, eventually_async

POISON_EVERY = 17
"""Of the producers' batches, one in so many is of tasks that their worker gives up for good."""
SLOTS = 4


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
    cancels: set[str] = field(default_factory=set)
    """Tasks that someone asked to cancel."""
    broken: list[str] = field(default_factory=list)
    """What went wrong with a worker itself."""
    repeats: int = 0
    """Calls that were made again because no answer came."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)


class LoadClient(BrokerClient):
    """Takes "try again, nothing was done" for what it is: no answer."""

    async def call(self, *arguments: Any, **options: Any) -> Reply:
        """Make one call."""
        reply = await super().call(*arguments, **options)
        if reply.status == 503:
            raise ConnectionRefusedError(reply.body)
        return reply


async def insist(seen: Seen, call: Any, *arguments: Any, **options: Any) -> tuple[Any, bool]:
    """Repeat a call until the broker answers it; return the answer, and whether it was repeated."""
    repeated = False
    while True:
        try:
            return await call(*arguments, **options), repeated
        except (aiohttp.ClientError, OSError, TimeoutError):
            repeated = True
            seen.repeats += 1
            await asyncio.sleep(0.02)


async def produce(url: str, seen: Seen, number: int) -> None:
    """Send batches with keys until told to stop."""
    async with LoadClient(url) as client:
        batch = 0
        while not seen.stop.is_set():
            keys = [f"{number}-{batch}-{item}" for item in range(5)]
            tasks = [{"capability": "work", "payload": key, "idempotency_key": key} for key in keys]
            results, _ = await insist(seen, client.submit, *tasks)
            for key, result in zip(keys, results, strict=True):
                assert result["accepted"], result
                seen.accepted[key] = result["id"]
            batch += 1
            await asyncio.sleep(0.02)


async def cancel(url: str, seen: Seen, rand: Random) -> None:
    """Cancel a task now and then, whatever became of it meanwhile."""
    async with LoadClient(url) as client:
        while not seen.stop.is_set():
            await asyncio.sleep(0.1)
            if seen.accepted:
                task_id = rand.choice([*seen.accepted.values()])
                seen.cancels.add(task_id)
                await insist(seen, client.ok, "POST", f"tasks/{task_id}/cancel")


async def work(url: str, seen: Seen, number: int, rand: Random) -> None:
    """Lease, hold, renew and settle until told to stop, and then finish what is held."""
    name = f"pod-{number}"
    held: dict[str, asyncio.Task] = {}
    told: set[str] = set()  # lost, says a heartbeat; an ack that overtook it may have been the cause
    finished = 0

    async with LoadClient(url) as client, LoadClient(url) as pulse:

        async def run(lease):
            try:
                await settle(lease)
            except Exception as error:  # noqa: BLE001  # told at the end, and not waited for until then
                seen.broken.append(f"{name} {lease['token']} {error!r}")
            finally:
                del held[lease["token"]]

        async def settle(lease):
            token, task = lease["token"], lease["task"]
            await asyncio.sleep(rand.uniform(0, 0.25))
            repeatable = True
            if int(task["payload"].split("-")[1]) % POISON_EVERY == 0:
                result, _ = await insist(seen, client.nack, token, retry=False)
            elif rand.random() < 0.1:
                # The next delivery may be settled before a repeat of this comes; its own answer is not kept then.
                give_back = client.release if rand.random() < 0.5 else client.nack
                result, repeated = await insist(seen, give_back, token)
                repeatable = not repeated
            else:
                (result,), _ = await insist(seen, client.ack, token, result=task["payload"])
                if result["ok"]:
                    seen.acked.add(task["id"])
            if result["ok"] or not repeatable:
                told.discard(token)
            else:
                seen.lost.append(f"{name} {token} {result}")

        async def beat():
            while True:
                leases = [{"token": token} for token in held]
                reply, _ = await insist(seen, pulse.heartbeat, name, slots=SLOTS, leases=leases)
                for status in reply["leases"]:
                    if status["status"] == "lease_lost" and status["token"] in held:
                        told.add(status["token"])
                await asyncio.sleep(0.5)

        beating = asyncio.create_task(beat())
        try:
            while not seen.stop.is_set() or held:
                if len(held) >= SLOTS or seen.stop.is_set():
                    await asyncio.sleep(0.01)
                    continue
                finished += 1
                reply, _ = await insist(
                    seen,
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


async def drain(client: BrokerClient) -> set[str]:
    """Complete what is left; return the ids."""
    done: set[str] = set()

    async def empty() -> bool:
        leases = (await client.lease("drain", slots=100))["leases"]
        await client.heartbeat("drain", slots=100)
        if leases:
            done.update(lease["task"]["id"] for lease in leases)
            await client.ack(*[lease["token"] for lease in leases])
        queue = await client.queue()
        return bool(queue["ready"] + queue["delayed"] + queue["leased"] == 0)

    await eventually_async(empty, what="an empty queue", seconds=60)
    return done


async def check(client: BrokerClient, seen: Seen, leftovers: set[str]) -> None:
    """Every accepted task has exactly one end, the one that its worker was told, and all sums are right."""
    assert len(set(seen.accepted.values())) == len(seen.accepted), "two keys got one task"
    assert seen.broken == []
    assert seen.lost == [], "a live worker lost a lease"
    assert seen.after_ack == [], "an acked task ran again"
    twice = [delivery for delivery, count in Counter(seen.deliveries).items() if count > 1]
    assert twice == [], "one delivery was given out twice"

    ends: Counter[str] = Counter()
    for key, task_id in seen.accepted.items():
        view = await client.task(task_id)
        ends[view["state"]] += 1
        if view["state"] == "cancelled":
            assert task_id in seen.cancels
            assert task_id not in seen.acked
        elif task_id in leftovers:
            assert view["state"] == "completed"
        elif int(key.split("-")[1]) % POISON_EVERY == 0:
            assert (view["state"], view["error"]["type"]) == ("dead", "Boom"), view
        else:
            assert (view["state"], view["result"]) == ("completed", key), view
            assert task_id in seen.acked
        assert view["attempts"]["reclaims"] == 0, view
    queue = await client.queue()
    assert (queue["ready"], queue["delayed"], queue["leased"]) == (0, 0, 0)
    # What a producer sent and got no answer for before it stopped does not exist: each insisted on an answer.
    assert queue["accepted_total"] == len(seen.accepted)
    assert (queue["completed_total"], queue["dead"]) == (ends["completed"], ends["dead"])
    assert sum(ends.values()) == len(seen.accepted) == ends["completed"] + ends["dead"] + ends["cancelled"]
