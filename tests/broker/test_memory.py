"""The broker runs without the collector of old cycles of garbage, so whatever it does must leave none behind."""

import asyncio
import contextlib
import os
from pathlib import Path

from broker_process import BrokerClient

ROUNDS = 4
GROWTH_MIB = 12
"""A kilobyte left behind by each of the calls after the first round would be more."""


def resident_mib(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def everything(url, number):
    """What callers do, good and bad, on connections that come and go."""
    for turn in range(60):
        async with BrokerClient(url) as client:
            pod = f"pod-{number}"
            await client.submit({"capability": "work", "payload": "x" * 200}, {"capability": "nowhere"})
            lease = await client.lease(pod, attempt=f"{turn}", slots=5, held=[])
            await client.heartbeat(pod, leases=[{"token": held["token"]} for held in lease["leases"]])
            for held in lease["leases"]:
                await client.ack(held["token"], result={"a": [1, 2, 3]})
            await client.call("GET", "tasks/none")
            await client.call("POST", "tasks", raw=b"{nonsense")
            await client.call("BREW", "/v1/coffee")
            await client.call("PROPFIND", "/v1/coffee")
            await client.call("GET", "/v1/stats")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.lease(pod, wait=30), timeout=0.01)
            async with client.stream() as events:
                await anext(events)


async def test_calls_leave_nothing_behind(lone_client, broker):
    await lone_client.configure({"name": "work", "completed_retention_seconds": 0}, generation=2)
    sizes = []
    for _ in range(ROUNDS):
        await asyncio.gather(*(everything(broker.url, number) for number in range(8)))
        sizes.append(resident_mib(broker.pid))

    assert sizes[-1] - sizes[0] < GROWTH_MIB, sizes
