"""What has arrived counts before what has run out, also when the event loop comes late to both."""

import asyncio
import time
from typing import Any

from prometheus_client import CollectorRegistry

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.leases import LeaseStatus
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core
from leadsman_broker.core.settings import Settings
from leadsman_broker.engine import Clock, Engine, Feed, SecureRandom
from leadsman_broker.metrics import EngineMetrics
from leadsman_broker.store.memory import MemoryStore

LEASE_SECONDS = 2.0
BELOW_A_STALL = LEASE_SECONDS / 5
WORKER, OTHER = c.Worker("ns", "pod", "1"), c.Worker("ns", "other", "1")
TURNS = 3
"""Of the loop between a socket that can be read and the command in it: its handler, its body, its request."""


class HandClock(Clock):
    """Moved by the test alone: a machine that is busy changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.time = super().now()

    def now(self) -> float:
        return self.time


def heartbeat(worker: c.Worker, *tokens: str) -> c.Heartbeat:
    return c.Heartbeat(worker, ("work",), 1, draining=False, leases=tuple(c.Beat(token) for token in tokens))


async def test_a_heartbeat_that_lay_in_its_socket_counts_before_the_end_of_its_lease() -> None:
    loop = asyncio.get_running_loop()
    store, clock = MemoryStore(), HandClock()
    core = Core(store.load(), clock.now(), SecureRandom(), Settings(reclaim_jitter=0.0))
    engine = Engine(core, store, clock, Feed(core, clock, "1.1"), EngineMetrics(CollectorRegistry()))
    engine.start()
    rules = CapabilityConfig(name="work", lease_seconds=LEASE_SECONDS)
    await engine.submit([c.Configure("ns", 1, (rules,))])
    await engine.submit([c.Enqueue("ns", (c.NewTask("work"),))])
    call = engine.lease(c.Lease(engine.next_call(), WORKER, ("work",), 1, 1, "a"))
    (granted,) = (await call.ended).answer.leases
    while clock.time < granted.expires_at - BELOW_A_STALL:
        clock.time += BELOW_A_STALL / 2
        await engine.submit([heartbeat(OTHER)])
    beaten: asyncio.Future[asyncio.Future[list[Any]]] = loop.create_future()

    def arrive(turns: int) -> None:
        if turns:
            loop.call_soon(arrive, turns - 1)
        else:
            beaten.set_result(asyncio.ensure_future(engine.submit([heartbeat(WORKER, granted.token)])))

    # While the loop does not turn, the lease ends, and the timer for that with it.
    clock.time = granted.expires_at + BELOW_A_STALL / 10
    loop.call_soon(arrive, TURNS)
    time.sleep(LEASE_SECONDS / 4)  # noqa: ASYNC251  longer than the engine ever waits with a lease like this

    (outcome,) = await (await beaten)
    assert outcome.leases[0].status is LeaseStatus.OK
    await engine.drain()
    engine.close()
