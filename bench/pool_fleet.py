"""Very many pools on one control plane, each with a queue of its own: made, given work, emptied, spoiled, deleted.

There are no nodes, so pods stay Pending; whoever stands for their workers is in here.
"""

import asyncio
import random
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import BrokerClient, Kube, OperatorProcess, ReplicaHistory, until
from fleet import kube as paths
from fleet.history import Size
from fleet.manifests import capability, pool, worker_deployment
from leadsman.wire.leases import AckItem, AckRequest, LeaseRequest, WorkerIdentity
from leadsman.wire.tasks import TaskSubmit

NAMESPACES = 10
MOST_REPLICAS = 10

_SHARE = 10
"""Pools of one Capability in a namespace that is to be deleted."""

_MAKERS = 16
"""Objects that are made at once."""

Name = tuple[str, str]
"""Namespace and name of a pool."""


class Deployments(ReplicaHistory):
    """The sizes of the Deployments of all namespaces, by namespace/name."""

    async def follow(self, kube: Kube, namespace: str = "") -> None:
        """Record for ever."""
        async for kind, manifest in kube.watch("/apis/apps/v1/deployments"):
            at = time.monotonic()
            if kind == "DELETED":
                continue
            meta = manifest["metadata"]
            sizes = self.sizes.setdefault(f"{meta['namespace']}/{meta['name']}", [])
            replicas = manifest["spec"]["replicas"]
            if not sizes or sizes[-1].replicas != replicas:
                async with self._changed:
                    sizes.append(Size(replicas, meta["generation"], at))
                    self._changed.notify_all()


class PoolFleet:
    """The pools, and what one may do to all of them."""

    def __init__(
        self,
        *,
        plane: ControlPlane,
        broker: BrokerProcess,
        operator: OperatorProcess,
        kube: Kube,
        client: BrokerClient,
        history: Deployments,
        rng: random.Random,
    ) -> None:
        self.plane = plane
        self.broker = broker
        self.operator = operator
        self.kube = kube
        self.history = history
        self.rng = rng
        self.pools: list[Name] = []
        self._client = client
        self._namespaces = [f"fleet-{number}" for number in range(NAMESPACES)]
        self._invalid: list[Name] = []
        self._woken: tuple[Sequence[Name], int] = ((), 0)

    async def open(self) -> None:
        """Make the namespaces."""
        for namespace in self._namespaces:
            await self.kube.create(paths.NAMESPACES, {"metadata": {"name": namespace}})

    async def grow(self, count: int) -> None:
        """Make pools until there are so many, all at zero and all known to be ready."""
        fresh = [(self._namespace(number), f"pool-{number}") for number in range(len(self.pools), count)]
        # A slot for every task, whatever has been measured of the tasks before.
        quick = {"targetTasksPerSlot": 1, "scaleIn": {"idleSeconds": 0}}

        async def make(name: Name) -> None:
            await self._apply(paths.CAPABILITIES, name[0], capability(name[1]))
            await self._apply(paths.POOLS, name[0], pool(name[1], maxReplicas=MOST_REPLICAS, scaling=quick))

        await _for_each(make, fresh)
        self.pools += fresh
        await self._until_all(self.pools, 0, seconds=900)
        # To write its metrics takes the operator a second with two thousand pools.
        await until(f"{count} pools known to be ready", self._all_ready, seconds=900, every_seconds=5.0)

    async def spoil(self, count: int) -> None:
        """Add pools whose spec the operator cannot read: the API server does not know the names of time zones."""
        bad = {"schedules": [{"timeZone": "Mars/Base", "min": 1}]}
        self._invalid = [(self._namespace(number), f"bad-{number}") for number in range(count)]
        await _for_each(lambda name: self._apply(paths.POOLS, name[0], pool(name[1], scaling=bad)), self._invalid)
        await until("their number", self._all_known, seconds=300, every_seconds=1.0)

    async def mend(self) -> None:
        """Delete the pools that cannot be read."""
        gone, self._invalid = self._invalid, []
        await _for_each(lambda name: self.kube.delete(f"{paths.POOLS.format(namespace=name[0])}/{name[1]}"), gone)
        await until("their end", self._all_known, seconds=300, every_seconds=1.0)

    def some(self, count: int) -> list[Name]:
        """Choose pools at random."""
        return self.rng.sample(self.pools, min(count, len(self.pools)))

    async def wake(self, chosen: Sequence[Name], tasks: int) -> float:
        """Enqueue so many tasks for each of these pools at once; return when (monotonic) it began."""
        self._woken = [*self._woken[0], *chosen], tasks
        by_namespace: dict[str, list[TaskSubmit]] = {}
        for namespace, name in chosen:
            by_namespace.setdefault(namespace, []).extend([TaskSubmit(capability=name)] * tasks)
        began = time.monotonic()
        await asyncio.gather(*(self._client.submit(namespace, *batch) for namespace, batch in by_namespace.items()))
        return began

    async def until_sized(self, chosen: Sequence[Name], size: int, seconds: float = 180) -> float:
        """Wait until all have this size; return when (monotonic) the last one came to it."""
        await self._until_all(chosen, size, seconds)
        return max(self.history.sizes[f"{namespace}/{name}"][-1].at for namespace, name in chosen)

    async def empty(self) -> None:
        """Do the tasks of the pools that were woken, and wait until these are at zero again."""
        chosen, tasks = self._woken
        self._woken = (), 0
        await asyncio.gather(*(self._do(namespace, name, tasks) for namespace, name in chosen))
        await self._until_all(chosen, 0, seconds=600)

    async def fill(self, namespace: str, what: str, count: int, *, replicas: int = 0) -> None:
        """Make a namespace with so many `pools` or plain `deployments`, each with so many replicas."""
        await self.kube.create(paths.NAMESPACES, {"metadata": {"name": namespace}})
        queues = {f"one-{number}": f"queue-{number // _SHARE}" for number in range(count)}
        names = [(namespace, name) for name in queues]

        async def make(name: Name) -> None:
            if what == "pools":
                one = pool(name[1], minReplicas=replicas, capabilities=[queues[name[1]]])
                await self._apply(paths.POOLS, namespace, one)
            else:
                await self._apply(paths.DEPLOYMENTS, namespace, worker_deployment(name[1], replicas=replicas))

        async def all_made() -> bool:
            found = await self.kube.get(paths.PODS.format(namespace=namespace))
            return len(found["items"]) == count * replicas

        if what == "pools":
            for queue in sorted(set(queues.values())):
                await self._apply(paths.CAPABILITIES, namespace, capability(queue))
        await _for_each(make, names)
        await self._until_all(names, replicas, seconds=300)
        await until("their pods", all_made, seconds=300, every_seconds=1.0)

    async def add_bare_pools(self, namespace: str, count: int) -> None:
        """Add so many pools to a namespace, with the status of one that an operator sees, for none to see."""
        path = paths.POOLS.format(namespace=namespace)
        seen = f"{paths.POOLS.format(namespace=self.pools[0][0])}/{self.pools[0][1]}"
        status = {"status": (await self.kube.get(seen))["status"]}

        async def make(name: Name) -> None:
            await self._apply(paths.POOLS, namespace, pool(name[1]))
            await self.kube.patch(f"{path}/{name[1]}/status", status, paths.MERGE)

        await _for_each(make, [(namespace, f"bare-{number}") for number in range(count)])

    async def count_events(self, namespace: str) -> int:
        """Count the Events of a namespace."""
        found = await self.kube.get(paths.EVENTS.format(namespace=namespace))
        return len(found["items"])

    async def drop_events(self, namespace: str) -> None:
        """Delete the Events of a namespace, as Kubernetes does with those of an hour ago."""
        await self.kube.delete(paths.EVENTS.format(namespace=namespace))

    async def delete_namespace(self, namespace: str) -> float:
        """Delete a namespace with everything in it; return how many seconds it took."""
        path = f"{paths.NAMESPACES}/{namespace}"
        began = time.monotonic()
        await self.kube.delete(path)

        async def gone() -> bool:
            return await self.kube.find(path) is None

        await until("its end", gone, seconds=300)
        return time.monotonic() - began

    async def operator_metrics(self) -> Mapping[tuple[str, str], float]:
        """Sum the operator's own samples by name, and by condition or cause."""
        found: dict[tuple[str, str], float] = {}
        for family in text_string_to_metric_families(await _read(f"{self.operator.ops_url}/metrics")):
            for sample in family.samples:
                key = (sample.name, sample.labels.get("condition") or sample.labels.get("cause", ""))
                found[key] = found.get(key, 0.0) + sample.value
        return found

    async def has_decided(self) -> bool:
        """Whether the operator has decided on any pool since it started. Cheap while it has not."""
        return "leadsman_operator_decisions_total{" in await _read(f"{self.operator.ops_url}/metrics")

    async def asked_broker(self) -> float:
        """Count every request that the broker has answered, the reading of its metrics left out."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(await _read(f"{self.broker.ops_url}/metrics"))
            for sample in family.samples
            if sample.name == "leadsman_http_requests_total"
        )

    async def _until_all(self, chosen: Sequence[Name], size: int, seconds: float) -> None:
        await self.history.until(
            f"{len(chosen)} Deployments at {size}",
            lambda sizes: all(sizes.replicas(f"{namespace}/{name}")[-1:] == [size] for namespace, name in chosen),
            seconds=seconds,
        )

    async def _all_ready(self) -> bool:
        found = await self.operator_metrics()
        return found.get(("leadsman_operator_pool_condition", "Ready"), 0) >= len(self.pools)

    async def _all_known(self) -> bool:
        found = await self.operator_metrics()
        return found["leadsman_operator_pools", ""] == len(self.pools) + len(self._invalid)

    async def _apply(self, path: str, namespace: str, manifest: dict[str, Any]) -> None:
        await self.kube.apply(f"{path.format(namespace=namespace)}/{manifest['metadata']['name']}", manifest)

    def _namespace(self, number: int) -> str:
        return self._namespaces[number % len(self._namespaces)]

    async def _do(self, namespace: str, name: str, tasks: int) -> None:
        identity = WorkerIdentity(pod_uid=secrets.token_hex(8), incarnation="1")
        done = 0
        while done < tasks:
            reply = await self._client.lease(
                namespace,
                LeaseRequest(
                    worker=identity,
                    capabilities=[name],
                    slots=tasks,
                    free_slots=tasks,
                    attempt_id=secrets.token_hex(8),
                    held=[],
                    wait_seconds=5.0,
                ),
            )
            if reply.leases:
                acks = [AckItem(token=lease.token) for lease in reply.leases]
                await self._client.ack(namespace, AckRequest(acks=acks))
            done += len(reply.leases)


async def _for_each(act: Callable[[Name], Awaitable[None]], names: Sequence[Name]) -> None:
    gate = asyncio.Semaphore(_MAKERS)

    async def one(name: Name) -> None:
        async with gate:
            await act(name)

    await asyncio.gather(*map(one, names))


async def _read(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return await reply.text()
