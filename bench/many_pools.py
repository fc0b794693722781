"""The operator among very many pools, on a real control plane: one JSON object a line.

For each number of pools: how long from an enqueue to the Deployment's final size while all others are idle, for one
pool and for a hundred at once; how soon a restarted operator has acted for what came while it was away; what it
costs when nothing happens. The clock starts before the submit call and stops at the watch event with the final
`spec.replicas`, both in this process. There are no nodes: the pods stay Pending.

What the operator asks of the API server is counted by the API server itself, in flow schemas for the operator's
user alone; what it asks of the broker, by the broker.
"""

import argparse
import asyncio
import dataclasses
import random
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from broker_process import BrokerProcess
from cluster import ControlPlane
from figures import Figures
from fleet import BrokerClient, Kube, OperatorProcess, ReplicaHistory, until
from fleet import kube as paths
from fleet.history import Size
from fleet.manifests import capability, pool, worker_deployment
from leadsman.wire.leases import AckItem, AckRequest, LeaseRequest, WorkerIdentity
from leadsman.wire.tasks import TaskSubmit

_CRDS = Path(__file__).resolve().parents[1] / "crds"
_USER = "bench-operator"
_NAMESPACES = 10
_MOST_REPLICAS = 10
_TASKS = 50
_BURST_POOLS = 100
_BURST_TASKS = 3
_PUSHED_POOLS = 40
_SCHEMAS = {
    "leases": (["*"], ["coordination.k8s.io"], ["leases"]),
    "writes": (["create", "update", "patch", "delete", "deletecollection"], ["*"], ["*"]),
    "reads": (["*"], ["*"], ["*"]),
}
"""Flow schema -> verbs, groups, resources of the operator's requests that it counts; the first that fits counts."""


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


@dataclasses.dataclass
class Bench:
    """One control plane with one number of pools."""

    plane: ControlPlane
    broker: BrokerProcess
    operator: OperatorProcess
    kube: Kube
    client: BrokerClient
    history: Deployments
    namespaces: Sequence[str]
    rng: random.Random
    full: int = 0
    """Pools in a namespace that is deleted; 0: none is."""
    woken: tuple[Sequence[tuple[str, str]], int] = ((), 0)
    """Pools that have been given work, and how many tasks each."""
    pools: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    async def grow(self, count: int) -> None:
        """Make pools until there are so many, each with a queue of its own, all at zero."""
        there = len(self.pools)
        fresh = [(self.namespaces[n % len(self.namespaces)], f"pool-{n}") for n in range(there, count)]
        gate = asyncio.Semaphore(16)

        async def make(namespace: str, name: str) -> None:
            # A slot for every task, whatever has been measured of the tasks before.
            quick = {"targetTasksPerSlot": 1, "scaleIn": {"idleSeconds": 0}}
            async with gate:
                await self._apply(paths.CAPABILITIES, namespace, capability(name))
                await self._apply(paths.POOLS, namespace, pool(name, maxReplicas=_MOST_REPLICAS, scaling=quick))

        await asyncio.gather(*(make(*each) for each in fresh))
        self.pools += fresh
        await self.history.until(
            f"{count} Deployments at zero",
            lambda sizes: all(sizes.replicas(f"{ns}/{name}")[-1:] == [0] for ns, name in self.pools),
            seconds=900,
        )
        await until(f"{count} pools known to be ready", self._all_ready, seconds=900, every_seconds=2.0)

    async def spoil(self, count: int) -> None:
        """Add pools whose spec the operator cannot read: the API server does not know the names of time zones."""
        bad = {"schedules": [{"timeZone": "Mars/Base", "min": 1}]}
        for number in range(count):
            namespace = self.namespaces[number % len(self.namespaces)]
            await self._apply(paths.POOLS, namespace, pool(f"bad-{number}", scaling=bad))

    async def _all_ready(self) -> bool:
        found = await self.operator_metrics()
        ready = found.get(("leadsman_operator_pool_condition", "Ready"), 0)
        return ready >= len(self.pools)

    async def _apply(self, path: str, namespace: str, manifest: dict[str, Any]) -> None:
        await self.kube.apply(f"{path.format(namespace=namespace)}/{manifest['metadata']['name']}", manifest)

    async def wake(self, chosen: Sequence[tuple[str, str]], tasks: int) -> float:
        """Enqueue for these pools at once; return when (monotonic) it began."""
        by_namespace: dict[str, list[TaskSubmit]] = {}
        for namespace, name in chosen:
            by_namespace.setdefault(namespace, []).extend([TaskSubmit(capability=name)] * tasks)
        began = time.monotonic()
        await asyncio.gather(*(self.client.submit(namespace, *batch) for namespace, batch in by_namespace.items()))
        return began

    async def until_sized(self, chosen: Sequence[tuple[str, str]], size: int, seconds: float = 180) -> float:
        """Wait until all have this size; return when (monotonic) the last one came to it."""
        keys = [f"{namespace}/{name}" for namespace, name in chosen]
        await self.history.until(
            f"{len(keys)} pools at {size}",
            lambda sizes: all(sizes.replicas(key)[-1:] == [size] for key in keys),
            seconds=seconds,
        )
        return max(self.history.sizes[key][-1].at for key in keys)

    async def empty(self) -> None:
        """Do the tasks of the pools that were woken, and wait until these are at zero again."""
        chosen, tasks = self.woken
        if not chosen:
            return
        self.woken = (), 0
        await asyncio.gather(*(self._do(namespace, name, tasks) for namespace, name in chosen))
        await self.until_sized(chosen, 0, seconds=600)

    async def _do(self, namespace: str, name: str, tasks: int) -> None:
        identity = WorkerIdentity(pod_uid=secrets.token_hex(8), incarnation="1")
        done = 0
        while done < tasks:
            reply = await self.client.lease(
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
                await self.client.ack(namespace, AckRequest(acks=acks))
            done += len(reply.leases)

    async def operator_metrics(self) -> Mapping[tuple[str, str], float]:
        """Sum the operator's own samples by name and condition."""
        found: dict[tuple[str, str], float] = {}
        async with aiohttp.ClientSession() as session, session.get(f"{self.operator.ops_url}/metrics") as reply:
            text = await reply.text()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, sample.labels.get("condition", ""))
                found[key] = found.get(key, 0.0) + sample.value
        return found

    async def asked_api(self) -> dict[str, float]:
        """Count the operator's requests by flow schema, as the API server dispatched them."""
        text = await asyncio.to_thread(self.plane.kubectl, "get", "--raw", "/metrics")
        found = dict.fromkeys(_SCHEMAS, 0.0)
        for line in text.splitlines():
            if line.startswith("apiserver_flowcontrol_dispatched_requests_total{"):
                for name in _SCHEMAS:
                    if f'flow_schema="{_USER}-{name}"' in line:
                        found[name] += float(line.rsplit(" ", 1)[1])
        return found

    async def asked_broker(self) -> float:
        """Count every request that the broker has answered, the reading of its metrics left out."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.broker.ops_url}/metrics") as reply:
            text = await reply.text()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "leadsman_http_requests_total"
        )


async def reaction(bench: Bench, trials: int) -> dict[str, float]:
    """One pool after another from zero to its final size, all others idle."""
    chosen = bench.rng.sample(bench.pools, min(trials, len(bench.pools)))
    milliseconds = []
    for one in chosen:
        began = await bench.wake([one], _TASKS)
        at = await bench.until_sized([one], _MOST_REPLICAS)
        milliseconds.append(1000 * (at - began))
    bench.woken = chosen, _TASKS
    cuts = statistics.quantiles(sorted(milliseconds), n=100, method="inclusive")
    return {f"enqueue_to_scale_p{part}_ms": cuts[part - 1] for part in (50, 95, 99)}


async def burst(bench: Bench) -> dict[str, float]:
    """A hundred pools woken at once."""
    chosen = bench.rng.sample(bench.pools, min(_BURST_POOLS, len(bench.pools)))
    began = await bench.wake(chosen, _BURST_TASKS)
    at = await bench.until_sized(chosen, _BURST_TASKS)
    bench.woken = chosen, _BURST_TASKS
    return {"burst_100_pools_all_scaled_s": at - began}


async def restart(bench: Bench) -> dict[str, float]:
    """Work comes for forty pools while the operator is dead; it starts again."""
    chosen = bench.rng.sample(bench.pools, min(_PUSHED_POOLS, len(bench.pools)))
    bench.operator.kill()
    await bench.wake(chosen, _BURST_TASKS)
    began = time.monotonic()
    starting = asyncio.create_task(asyncio.to_thread(bench.operator.start))
    first: float | None = None
    while first is None:
        await asyncio.sleep(0.02)
        if starting.done() and (await bench.operator_metrics()).get(("leadsman_operator_decisions_total", ""), 0):
            first = time.monotonic()
    await starting
    at = await bench.until_sized(chosen, _BURST_TASKS)
    bench.woken = chosen, _BURST_TASKS
    return {"start_to_first_decision_s": first - began, "restart_all_acted_s": at - began}


async def idle(bench: Bench, seconds: float, settle: float) -> dict[str, float]:
    """Nothing happens: what is asked, written and used all the same."""
    await asyncio.sleep(settle)
    before, asked, told = await bench.operator_metrics(), await bench.asked_api(), await bench.asked_broker()
    began = time.monotonic()
    await asyncio.sleep(seconds)
    after, asked_after, told_after = (
        await bench.operator_metrics(),
        await bench.asked_api(),
        await bench.asked_broker(),
    )
    took = time.monotonic() - began
    minutes = took / 60
    cpu = ("process_cpu_seconds_total", "")
    return {
        "idle_api_writes_per_min": (asked_after["writes"] - asked["writes"]) / minutes,
        "idle_lease_requests_per_min": (asked_after["leases"] - asked["leases"]) / minutes,
        "idle_api_requests_per_min": (sum(asked_after.values()) - sum(asked.values())) / minutes,
        "idle_broker_requests_per_min": (told_after - told) / minutes,
        "idle_cpu_percent": 100 * (after[cpu] - before[cpu]) / took,
        "rss_mib": after["process_resident_memory_bytes", ""] / 2**20,
    }


async def delete(bench: Bench, count: int) -> dict[str, float]:
    """Delete a namespace full of pools, and one full of as many plain Deployments."""
    took = {}
    for what in ("pools", "deployments"):
        namespace = f"full-of-{what}-{secrets.token_hex(3)}"
        await bench.kube.create(paths.NAMESPACES, {"metadata": {"name": namespace}})
        for number in range(count):
            name = f"one-{number}"
            if what == "pools":
                await bench.kube.apply(f"{paths.POOLS.format(namespace=namespace)}/{name}", pool(name))
            else:
                path = f"{paths.DEPLOYMENTS.format(namespace=namespace)}/{name}"
                await bench.kube.apply(path, worker_deployment(name, replicas=0))
        await bench.until_sized([(namespace, f"one-{number}") for number in range(count)], 0)
        began = time.monotonic()
        await bench.kube.delete(f"{paths.NAMESPACES}/{namespace}")
        await until("its end", lambda ns=namespace: _gone(bench.kube, ns), seconds=300)  # type: ignore[misc]
        took[f"namespace_of_{count}_{what}_deleted_s"] = time.monotonic() - began
    return took


async def _gone(kube: Kube, namespace: str) -> bool:
    return await kube.find(f"{paths.NAMESPACES}/{namespace}") is None


def count_requests(plane: ControlPlane) -> Path:
    """Give the operator a user of its own whose requests the API server counts apart; return its kubeconfig."""
    plane.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": _USER}],
        },
        *(_flow_schema(name, precedence) for precedence, name in enumerate(_SCHEMAS, start=100)),
    )
    return plane.write_kubeconfig(f"{_USER}.kubeconfig", plane.authority.issue(_USER, _USER))


def _flow_schema(name: str, precedence: int) -> dict[str, Any]:
    verbs, groups, resources = _SCHEMAS[name]
    resource_rule = {
        "verbs": verbs,
        "apiGroups": groups,
        "resources": resources,
        "namespaces": ["*"],
        "clusterScope": True,
    }
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": f"{_USER}-{name}"},
        "spec": {
            "priorityLevelConfiguration": {"name": "workload-high"},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": _USER}}],
                    "resourceRules": [resource_rule],
                    "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": ["*"]}] if name == "reads" else [],
                }
            ],
        },
    }


def report(figures: Mapping[str, float], conditions: Mapping[str, object]) -> None:
    """Print the figures."""
    for metric, value in figures.items():
        unit = next(
            (
                unit
                for ending, unit in {
                    "_ms": "ms",
                    "_s": "s",
                    "_per_min": "1/min",
                    "_mib": "MiB",
                    "_percent": "% of a core",
                }.items()
                if metric.endswith(ending)
            ),
            "",
        )
        Figures("operator", **conditions).report(metric, value, unit)


async def measure(
    plane: ControlPlane, broker: BrokerProcess, operator: OperatorProcess, arguments: argparse.Namespace
) -> None:
    """Measure at each number of pools, from the smallest to the largest."""
    async with Kube(plane.kubeconfig) as kube, BrokerClient(broker.url) as client:
        history = Deployments()
        following = asyncio.create_task(history.follow(kube))
        namespaces = [f"fleet-{number}" for number in range(_NAMESPACES)]
        for namespace in namespaces:
            await kube.create(paths.NAMESPACES, {"metadata": {"name": namespace}})
        bench = Bench(plane, broker, operator, kube, client, history, namespaces, random.Random(arguments.seed))
        bench.full = arguments.full_namespace
        try:
            await asyncio.to_thread(operator.start)
            await bench.spoil(arguments.invalid)
            for count in sorted(arguments.pools):
                await bench.grow(count)
                for figures in _phases(bench, arguments):
                    report(await figures, {**_conditions(arguments), "pools": count})
                    await bench.empty()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def _phases(bench: Bench, arguments: argparse.Namespace) -> Iterator[Any]:
    yield idle(bench, arguments.idle_seconds, arguments.settle_seconds)
    yield reaction(bench, arguments.trials)
    yield burst(bench)
    yield restart(bench)
    if bench.full:
        yield delete(bench, bench.full)


def _conditions(arguments: argparse.Namespace) -> dict[str, object]:
    return {
        "trials": arguments.trials,
        "invalid_pools": arguments.invalid,
        "namespaces": _NAMESPACES,
        "tasks": _TASKS,
        "replicas": _MOST_REPLICAS,
        "nodes": 0,
        "idle_seconds": arguments.idle_seconds,
    }


def main() -> None:
    """Bring up a control plane, a broker and an operator of their own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, nargs="+", default=[100, 500, 1000], help="numbers of pools")
    parser.add_argument("--invalid", type=int, default=0, help="pools with a spec that cannot be read, beside them")
    parser.add_argument("--trials", type=int, default=50, help="pools woken one after the other")
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="how long nothing happens")
    parser.add_argument(
        "--settle-seconds", type=float, default=90.0, help="before that: a status may follow by a minute"
    )
    parser.add_argument("--full-namespace", type=int, default=200, help="pools of a namespace that is deleted")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="leadsman-operator-") as folder,
        ControlPlane.start() as plane,
        BrokerProcess(Path(folder) / "broker") as broker,
    ):
        plane.kubectl("apply", "--server-side", "-f", str(_CRDS))
        plane.kubectl("wait", "--for=condition=Established", "-f", str(_CRDS), "--timeout=60s")
        operator = OperatorProcess(
            Path(folder) / "operator",
            kubeconfig=count_requests(plane),
            broker_url=broker.url,
            leader_election=True,
            lease_namespace="default",
            args=["--identity", "bench"],
        )
        try:
            asyncio.run(measure(plane, broker, operator, arguments))
        except BaseException:
            sys.stderr.write(operator.log[-20_000:])
            raise
        finally:
            operator.close()


if __name__ == "__main__":
    main()
