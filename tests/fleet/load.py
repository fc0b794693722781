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

Pattern = Sequence[tuple[float, float]]
"""Phases: tasks a second, and about how many seconds it lasts."""


PATTERNS: dict[str, Pattern] = {
    "crowds and lulls": ((4.0, 2.0), (0.5, 4.0)),
    "spikes out of silence": ((12.0, 0.7), (0.02, 4.0)),
    "a trickle": ((1.2, 10.0),),
    "slopes": ((1.5, 1.0), (3.0, 1.0), (5.0, 1.0), (2.0, 1.0), (0.1, 3.0)),
}
"""Name -> phases, one after the other and again."""


@dataclass
class Load:
    """Work on some queues of one namespace, each with its pattern; `accepted` are the ids the broker took."""

    client: BrokerClient
    namespace: str
    capabilities: Sequence[str]
    rng: random.Random
    patterns: Sequence[Pattern] = (PATTERNS["crowds and lulls"],)
    """The queues take them in turn."""
    accepted: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        """Submit while the block runs; at its end no submit is on its way."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name, pattern in zip(self.capabilities, itertools.cycle(self.patterns), strict=False):
                group.create_task(self._queue(name, pattern, stop))
            try:
                yield self
            finally:
                stop.set()

    async def _queue(self, capability: str, pattern: Pattern, stop: asyncio.Event) -> None:
        for rate, seconds in itertools.cycle(pattern):
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
