"""Work that comes and goes at random, so that fleets keep growing and shrinking while workers take tasks."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from leadsman.wire.tasks import TaskSubmit

from .broker import BrokerClient
from .waiting import happens_within


@dataclass
class Load:
    """Alternating crowds and lulls on some queues of one namespace; `accepted` are the ids the broker took."""

    client: BrokerClient
    namespace: str
    capabilities: Sequence[str]
    rng: random.Random
    crowd: tuple[float, float] = (4.0, 2.0)
    """Tasks a second, and about how many seconds it lasts."""
    lull: tuple[float, float] = (0.5, 4.0)
    accepted: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        """Submit while the block runs; at its end no submit is on its way."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name in self.capabilities:
                group.create_task(self._queue(name, stop))
            try:
                yield self
            finally:
                stop.set()

    async def _queue(self, capability: str, stop: asyncio.Event) -> None:
        for rate, seconds in itertools.cycle([self.crowd, self.lull]):
            if stop.is_set():
                return
            until = time.monotonic() + seconds * self.rng.uniform(0.6, 1.4)
            while time.monotonic() < until and not await happens_within(stop, self.rng.expovariate(rate)):
                await self._submit(capability)

    async def _submit(self, capability: str) -> None:
        reply = await self.client.submit(self.namespace, TaskSubmit(capability=capability))
        (result,) = reply.results
        assert result.id, f"the broker refused the load: {result.reason}"
        self.accepted.append(result.id)
