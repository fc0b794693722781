"""The operator among very many pools, on a real control plane: one JSON object a line.

For each number of pools: how long from an enqueue to the Deployment's final size while all others are idle, for one
pool and for a hundred at once; how soon a restarted operator has acted for what came while it was away; what it
costs when nothing happens; whether pools with a spec that cannot be read change any of it; how long a namespace
that is full of pools takes to go.

The clock starts before the submit call and stops at the watch event with the final `spec.replicas`, both in this
process. There are no nodes: the pods stay Pending.

What the operator asks of the API server is counted by the API server itself, in flow schemas for the operator's
user alone; what it asks of the broker, by the broker.
"""

import argparse
import asyncio
import dataclasses
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from api_requests import asked, count_requests
from broker_process import BrokerProcess
from cluster import ControlPlane
from figures import Figures
from fleet import BrokerClient, Kube, OperatorProcess, until
from load import rss_mib
from namespace_deletion import Deletions
from pool_fleet import MOST_REPLICAS, NAMESPACES, Deployments, PoolFleet
from processor_time import percent, watched, worst_percent

_CRDS = Path(__file__).resolve().parents[1] / "crds"
_USER = "bench-operator"
_TASKS = 50
_BURST_POOLS = 100
_BURST_TASKS = 3
_PUSHED_POOLS = 40
_QUIET_SECONDS = 65.0
"""A status follows by a minute; when nothing was written for longer, nothing is owed."""
_SETTLE_SECONDS = 300.0
_WORST_SECONDS = 45.0
_MANY = 1000
_IDLE_SECONDS = {False: 45.0, True: 600.0}
"""Whether there are many pools: their looks for nothing's sake and the lists come round once in ten minutes."""

Measured = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Bench:
    """The pools and what was asked for on the command line."""

    fleet: PoolFleet
    trials: int
    idle_seconds: float
    full_namespace: int
    repeats: int

    async def asked_api(self) -> dict[str, float]:
        """Count the operator's requests by flow schema."""
        return await asyncio.to_thread(asked, self.fleet.plane, _USER)


async def idle(bench: Bench) -> Measured:
    """Nothing happens: what is asked, written and used all the same."""
    fleet = bench.fleet
    settled = await _settle(bench)
    looks_before = await fleet.operator_metrics()
    asked_before, told_before = await bench.asked_api(), await fleet.asked_broker()
    readings = await watched(fleet.operator.pid, bench.idle_seconds)
    asked_after, told_after = await bench.asked_api(), await fleet.asked_broker()
    looks_after = await fleet.operator_metrics()
    minutes = (readings[-1].at - readings[0].at) / 60
    looks = {
        cause: count - looks_before.get((name, cause), 0.0)
        for (name, cause), count in looks_after.items()
        if name == "leadsman_operator_looks_total"
    }
    return {
        "idle_api_writes_per_min": (asked_after["writes"] - asked_before["writes"]) / minutes,
        "idle_lease_requests_per_min": (asked_after["leases"] - asked_before["leases"]) / minutes,
        "idle_api_requests_per_min": (sum(asked_after.values()) - sum(asked_before.values())) / minutes,
        "idle_broker_requests_per_min": (told_after - told_before) / minutes,
        "idle_cpu_percent": percent(readings),
        "idle_cpu_worst_45s_percent": worst_percent(readings, _WORST_SECONDS),
        **{f"idle_looks_{cause}_per_min": count / minutes for cause, count in sorted(looks.items())},
        "rss_mib": rss_mib(fleet.operator.pid),
        "last_write_before_idle_s": settled,
    }


async def _settle(bench: Bench) -> float:
    """Wait until the operator has written nothing for a while; return how long it took until its last write."""
    began = last = time.monotonic()
    writes = -1.0
    while time.monotonic() - last < _QUIET_SECONDS and time.monotonic() - began < _SETTLE_SECONDS:
        now = (await bench.asked_api())["writes"]
        if now != writes:
            writes, last = now, time.monotonic()
        await asyncio.sleep(5)
    return last - began


async def reaction(bench: Bench) -> Measured:
    """One pool after another from zero to its final size, all others idle."""
    fleet = bench.fleet
    milliseconds = []
    for one in fleet.some(bench.trials):
        began = await fleet.wake([one], _TASKS)
        at = await fleet.until_sized([one], MOST_REPLICAS)
        milliseconds.append(1000 * (at - began))
        # The controller manager makes ten pods for it, which is not what the next trial is about.
        await asyncio.sleep(0.5)
    cuts = statistics.quantiles(sorted(milliseconds), n=100, method="inclusive")
    return {f"enqueue_to_scale_p{part}_ms": cuts[part - 1] for part in (50, 95, 99)}


async def burst(bench: Bench) -> Measured:
    """A hundred pools woken at once."""
    chosen = bench.fleet.some(_BURST_POOLS)
    began = await bench.fleet.wake(chosen, _BURST_TASKS)
    at = await bench.fleet.until_sized(chosen, _BURST_TASKS)
    return {"burst_100_pools_all_scaled_s": at - began}


async def restart(bench: Bench) -> Measured:
    """Work comes for forty pools while the operator is dead; it starts again."""
    fleet = bench.fleet
    chosen = fleet.some(_PUSHED_POOLS)
    fleet.operator.kill()
    await fleet.wake(chosen, _BURST_TASKS)
    began = time.monotonic()
    await asyncio.to_thread(fleet.operator.start)
    listening = time.monotonic()
    await until("a decision", fleet.has_decided, seconds=180, every_seconds=0.05)
    decided = time.monotonic()
    at = await fleet.until_sized(chosen, _BURST_TASKS)
    return {
        "start_to_listening_s": listening - began,
        "start_to_first_decision_s": decided - began,
        "restart_all_acted_s": at - began,
    }


async def deletion(bench: Bench) -> Measured:
    """Delete namespaces full of pools, and full of as many plain Deployments."""

    async def writes() -> float:
        return (await bench.asked_api())["writes"]

    return await Deletions(bench.fleet, bench.full_namespace, writes).measure(bench.repeats)


PHASES: dict[str, Callable[[Bench], Awaitable[Measured]]] = {
    "idle": idle,
    "reaction": reaction,
    "burst": burst,
    "restart": restart,
    "deletion": deletion,
}
_BESIDE_INVALID = ("reaction", "burst")
"""What is measured again with pools that cannot be read among the others."""


async def measure(fleet: PoolFleet, arguments: argparse.Namespace) -> None:
    """Measure at each number of pools, from the smallest to the largest."""
    await fleet.open()
    await asyncio.to_thread(fleet.operator.start)
    for count in sorted(arguments.pools):
        began = time.monotonic()
        await fleet.grow(count)
        _say(f"{count} pools ready after {time.monotonic() - began:.0f} s")
        idle_seconds = arguments.idle_seconds or _IDLE_SECONDS[count >= _MANY]
        bench = Bench(fleet, arguments.trials, idle_seconds, arguments.full_namespace, arguments.repeats)
        for name in arguments.phases:
            await _run(bench, name, _conditions(bench, count, 0))
        again = [name for name in arguments.phases if name in _BESIDE_INVALID]
        if arguments.invalid and again:
            await fleet.spoil(arguments.invalid)
            beside = dataclasses.replace(bench, trials=max(2, bench.trials // 2))
            for name in again:
                await _run(beside, name, _conditions(beside, count, arguments.invalid))
            await fleet.mend()


async def _run(bench: Bench, name: str, conditions: Mapping[str, object]) -> None:
    began = time.monotonic()
    report(await PHASES[name](bench), conditions)
    await bench.fleet.empty()
    _say(f"{name} took {time.monotonic() - began:.0f} s")


def report(measured: Measured, conditions: Mapping[str, object]) -> None:
    """Print the figures."""
    units = {"_ms": "ms", "_s": "s", "_per_min": "1/min", "_mib": "MiB", "_percent": "% of a core"}
    figures = Figures("operator", **conditions)
    for metric, value in measured.items():
        figures.report(metric, value, next((unit for end, unit in units.items() if metric.endswith(end)), ""))


def _say(progress: str) -> None:
    sys.stderr.write(f"{progress}\n")


def _conditions(bench: Bench, pools: int, invalid: int) -> dict[str, object]:
    return {
        "pools": pools,
        "invalid_pools": invalid,
        "trials": bench.trials,
        "repeats": bench.repeats,
        "namespaces": NAMESPACES,
        "tasks": _TASKS,
        "replicas": MOST_REPLICAS,
        "nodes": 0,
        "idle_seconds": bench.idle_seconds,
    }


async def run(
    plane: ControlPlane, broker: BrokerProcess, operator: OperatorProcess, arguments: argparse.Namespace
) -> None:
    """Watch the Deployments of the control plane, and measure."""
    async with Kube(plane.kubeconfig) as kube, BrokerClient(broker.url) as client:
        history = Deployments()
        following = asyncio.create_task(history.follow(kube))
        try:
            await measure(
                PoolFleet(
                    plane=plane,
                    broker=broker,
                    operator=operator,
                    kube=kube,
                    client=client,
                    history=history,
                    rng=random.Random(arguments.seed),
                ),
                arguments,
            )
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def main() -> None:
    """Bring up a control plane, a broker and an operator of their own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, nargs="+", default=[100, 500, 1000], help="numbers of pools")
    parser.add_argument("--phases", nargs="+", choices=list(PHASES), default=list(PHASES), help="what to measure")
    parser.add_argument("--invalid", type=int, default=500, help="pools that cannot be read, for a second look")
    parser.add_argument("--trials", type=int, default=40, help="pools woken one after the other")
    parser.add_argument("--idle-seconds", type=float, help="how long nothing happens (45; 600 from 1,000 pools)")
    parser.add_argument("--full-namespace", type=int, default=200, help="pools of a namespace that is deleted")
    parser.add_argument("--repeats", type=int, default=3, help="deletions of each kind of namespace")
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
            kubeconfig=count_requests(plane, _USER),
            broker_url=broker.url,
            leader_election=True,
            lease_namespace="default",
            # As in the chart, where a container that starts again has the name of its pod: the lease is its own.
            args=["--identity", "bench"],
        )
        try:
            asyncio.run(run(plane, broker, operator, arguments))
        except BaseException:
            sys.stderr.write(operator.log[-20_000:])
            raise
        finally:
            operator.close()


if __name__ == "__main__":
    main()
