"""How long a full namespace takes to go, and what of it is the operator's doing.

Five kinds of namespaces, each with as many Deployments at zero: these alone; pools, whose Deployments the operator
made; such pools without their Events, which Kubernetes drops after an hour; pools of which the operator was killed
before the deletion; and plain Deployments with as many pools beside them, with a status, that no operator has ever
seen, which is what the API server and its controllers need for the objects alone. Then Deployments and pools with
one worker each, as fleets are that are in use. Ten pools share a Capability. Each deletion begins when all
is told of the objects.
"""

import asyncio
import secrets
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pool_fleet import PoolFleet

_STILL_SECONDS = 8.0
"""Without a write of the operator's or a new Event: what is to be told about the new objects is told."""

Measured = dict[str, float]


class Deletions:
    """Fills namespaces and deletes them; `writes` counts the operator's writes so far."""

    def __init__(self, fleet: PoolFleet, count: int, writes: Callable[[], Awaitable[float]]) -> None:
        self._fleet = fleet
        self._count = count
        self._writes = writes
        self._written: list[float] = []
        """Its writes during each deletion of pools."""
        self._kinds: dict[str, Callable[[str], Awaitable[float]]] = {
            "deployments": self._deployments,
            "pools": self._pools,
            "pools_without_events": self._hour_old,
            "pools_operator_dead": self._orphans,
            "deployments_and_bare_pools": self._bare,
            "deployments_in_use": lambda namespace: self._deployments(namespace, replicas=1),
            "pools_in_use": lambda namespace: self._pools(namespace, replicas=1),
        }

    async def measure(self, repeats: int) -> Measured:
        """Delete one of each kind after the other, in the other order every second time; return the medians."""
        took: dict[str, list[float]] = {kind: [] for kind in self._kinds}
        for turn in range(repeats):
            for kind in list(self._kinds) if turn % 2 == 0 else reversed(self._kinds):
                took[kind].append(await self._kinds[kind](f"full-{secrets.token_hex(3)}"))
                sys.stderr.write(f"{kind}: {took[kind][-1]:.2f} s\n")
        medians = {kind: statistics.median(seconds) for kind, seconds in took.items()}
        found = {f"namespace_deletion_{self._count}_{kind}_s": seconds for kind, seconds in medians.items()}
        found["namespace_deletion_ratio"] = medians["pools"] / medians["deployments"]
        found["namespace_deletion_in_use_ratio"] = medians["pools_in_use"] / medians["deployments_in_use"]
        found["namespace_deletion_operator_writes"] = statistics.median(self._written)
        return found

    async def _deployments(self, namespace: str, *, replicas: int = 0) -> float:
        await self._fleet.fill(namespace, "deployments", self._count, replicas=replicas)
        await self._still(namespace)
        return await self._fleet.delete_namespace(namespace)

    async def _pools(self, namespace: str, *, replicas: int = 0) -> float:
        await self._fleet.fill(namespace, "pools", self._count, replicas=replicas)
        before = await self._still(namespace)
        seconds = await self._fleet.delete_namespace(namespace)
        self._written.append(await self._writes() - before)
        return seconds

    async def _hour_old(self, namespace: str) -> float:
        await self._fleet.fill(namespace, "pools", self._count)
        await self._still(namespace)
        await self._fleet.drop_events(namespace)
        return await self._fleet.delete_namespace(namespace)

    async def _orphans(self, namespace: str) -> float:
        await self._fleet.fill(namespace, "pools", self._count)
        await self._still(namespace)
        return await self._without_operator(lambda: self._fleet.delete_namespace(namespace))

    async def _bare(self, namespace: str) -> float:
        async def fill_and_delete() -> float:
            await self._fleet.fill(namespace, "deployments", self._count)
            await self._fleet.add_bare_pools(namespace, self._count)
            await self._still(namespace)
            return await self._fleet.delete_namespace(namespace)

        return await self._without_operator(fill_and_delete)

    async def _without_operator(self, act: Callable[[], Awaitable[float]]) -> float:
        self._fleet.operator.kill()
        try:
            return await act()
        finally:
            await asyncio.to_thread(self._fleet.operator.start)

    async def _still(self, namespace: str) -> float:
        """Wait until nothing new was told for a while; return the operator's number of writes."""
        told, since = await self._told(namespace), time.monotonic()
        while time.monotonic() - since < _STILL_SECONDS:
            await asyncio.sleep(1.0)
            now = await self._told(namespace)
            if now != told:
                told, since = now, time.monotonic()
        return told[0]

    async def _told(self, namespace: str) -> tuple[float, int]:
        return await self._writes(), await self._fleet.count_events(namespace)
