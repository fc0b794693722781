"""How long from an enqueue to the Deployment's final size, on a real control plane: one JSON object a line.

The clock starts before the submit call and stops at the watch event that carries the final `spec.replicas`, both in
this process. Every trial has a fresh pool that stands at zero; nothing plays a node, so the pods stay Pending.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from broker_process import BrokerProcess
from cluster import ControlPlane
from figures import Figures
from fleet import BrokerClient, Kube, OperatorProcess, ReplicaHistory, recorded, until
from fleet.manifests import capability, pool
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit

_CRDS = Path(__file__).resolve().parents[1] / "crds"
_MOST_REPLICAS = 10


async def trial(pools: Pools, client: BrokerClient, history: ReplicaHistory, name: str, tasks: int) -> float:
    """One pool from zero to its final size; seconds."""
    wanted = min(tasks, _MOST_REPLICAS)
    await pools.apply(capability(name), pool(name, maxReplicas=_MOST_REPLICAS))
    await pools.until_ready(name)
    await history.until("the Deployment at zero", lambda sizes: sizes.replicas(name) == [0])
    batch = [TaskSubmit(capability=name)] * tasks

    started = time.monotonic()
    await client.submit(pools.namespace, *batch)
    await history.until("the final size", lambda sizes: sizes.replicas(name)[-1] == wanted)
    seconds = history.sizes[name][-1].at - started

    assert history.replicas(name) == [0, wanted], f"more than one change: {history.replicas(name)}"
    await pools.delete("WorkerPool", name)
    await pools.delete("Capability", name)
    await until("the pods' end", lambda: _no_pods(pools, name), seconds=60)
    return seconds


async def measure(
    plane: ControlPlane, broker: BrokerProcess, namespace: str, *, trials: int, tasks: int, pools: int
) -> list[float]:
    """Run the trials among a number of idle pools."""
    async with (
        Kube(plane.kubeconfig) as kube,
        BrokerClient(broker.url) as client,
        recorded(kube, namespace) as history,
    ):
        there = Pools(kube, namespace)
        idle = [f"idle-{number}" for number in range(pools - 1)]
        for name in idle:
            await there.apply(capability(name), pool(name))
        await there.until_ready(*idle)
        return [await trial(there, client, history, f"trial-{number}", tasks) for number in range(trials)]


async def _no_pods(pools: Pools, name: str) -> bool:
    return not await pools.pods(name)


def report(seconds: list[float], conditions: dict[str, object]) -> None:
    """Print the figures."""
    milliseconds = sorted(1000 * one for one in seconds)
    cuts = statistics.quantiles(milliseconds, n=20, method="inclusive")
    figures = {"p50": statistics.median(milliseconds), "p95": cuts[18], "max": milliseconds[-1]}
    for word, value in figures.items():
        Figures("reaction", **conditions).report(f"enqueue_to_scale_{word}_ms", value, "ms")


def main() -> None:
    """Bring up a control plane, a broker and an operator of their own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=50, help="tasks in the one submit call of a trial")
    parser.add_argument("--pools", type=int, default=5, help="pools there are, the one of the trial included")
    arguments = parser.parse_args()
    conditions = {
        **vars(arguments),
        "replicas": min(arguments.tasks, _MOST_REPLICAS),
        "tier": "control-plane",
    }
    with (
        tempfile.TemporaryDirectory(prefix="leadsman-reaction-") as folder,
        ControlPlane.start() as plane,
        BrokerProcess(Path(folder) / "broker") as broker,
        plane.namespace("reaction") as namespace,
    ):
        plane.kubectl("apply", "--server-side", "-f", str(_CRDS))
        plane.kubectl("wait", "--for=condition=Established", "-f", str(_CRDS), "--timeout=60s")
        operator = OperatorProcess(
            Path(folder) / "operator",
            kubeconfig=plane.kubeconfig,
            broker_url=broker.url,
            namespaces=[namespace],
        )
        try:
            operator.start()
            seconds = asyncio.run(measure(plane, broker, namespace, **vars(arguments)))
        except BaseException:
            sys.stderr.write(operator.log[-20_000:])
            raise
        finally:
            operator.close()
    report(seconds, conditions)


if __name__ == "__main__":
    main()
