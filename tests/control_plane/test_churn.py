"""Pools come, grow and go, over and over: the operator keeps nothing of those that went, nor does the cluster."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_process import BrokerProcess
from fleet import OperatorProcess, until
from fleet import kube as paths
from fleet.kube import MERGE
from fleet.manifests import capability, pool
from fleet.operator_metrics import metric
from fleet.pools import Pools

LONG_SECONDS = 3600 if os.environ.get("LEADSMAN_LONG") else 0
ROUNDS = 6
"""At least so many, the first of which fills what is kept for good: connections, code, pools of memory."""
TOGETHER = 25
SPARE_BYTES = 24 * 2**20

Census = dict[str, Any]


class Counted:
    """An operator that tells what lives in it."""

    def __init__(self, operator: OperatorProcess, path: Path) -> None:
        self.operator = operator
        self.path = path

    async def census(self) -> Census:
        """Count now."""
        self.path.unlink(missing_ok=True)
        os.kill(self.operator.pid, signal.SIGUSR1)

        async def written() -> bool:
            return self.path.exists()

        await until("a count", written, seconds=60)
        found: Census = json.loads(self.path.read_text())
        return found

    async def forgotten(self) -> bool:
        """Whether it knows no pool any more."""
        return await metric(self.operator, "leadsman_operator_pools") == 0


@pytest.fixture
def counted(
    start_operator: Callable[..., OperatorProcess], broker: BrokerProcess, namespace: str, tmp_path: Path
) -> Counted:
    path = tmp_path / "census.json"
    operator = start_operator(
        broker_url=broker.url,
        namespaces=[namespace],
        program="fleet.counting_operator",
        env={"LEADSMAN_TEST_CENSUS": str(path)},
    )
    return Counted(operator, path)


async def live(pools: Pools, name: str) -> None:
    """One pool with its queue: made, scaled as kubectl does it, deleted."""
    await pools.apply(capability(name), pool(name))
    await pools.until_ready(name, seconds=120)
    await pools.kube.patch(f"{pools.path('WorkerPool', name)}/scale", {"spec": {"replicas": 1}}, MERGE)
    await until(f"a pod of {name}", lambda: pools.pods(name), seconds=120, every_seconds=0.5)
    await pools.delete("WorkerPool", name)
    await pools.delete("Capability", name)


async def empty(pools: Pools) -> bool:
    """Whether the namespace has nothing of them any more."""
    for path in (paths.DEPLOYMENTS, paths.REPLICA_SETS, paths.PODS):
        if (await pools.kube.get(path.format(namespace=pools.namespace)))["items"]:
            return False
    return True


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 600)
async def test_pools_that_come_and_go_leave_nothing_behind(pools: Pools, counted: Counted) -> None:
    began, rounds = time.monotonic(), 0
    first: Census = {}
    while rounds < ROUNDS or time.monotonic() - began < LONG_SECONDS:
        await asyncio.gather(*(live(pools, f"pool-{rounds}-{number}") for number in range(TOGETHER)))
        await until("an empty namespace", lambda: empty(pools), seconds=120, every_seconds=0.5)
        await until("an operator without pools", counted.forgotten, seconds=60)
        rounds += 1
        first = first or await at_rest(counted)

    last = await at_rest(counted)
    # Connections and timers come and go; what each pool leaves behind is as many objects of one kind as pools went.
    assert not grown(first, last, (rounds - 1) * TOGETHER // 2)
    assert last["rss"] - first["rss"] <= SPARE_BYTES


async def at_rest(counted: Counted) -> Census:
    """A count when nothing is worked on.

    kopf keeps a task for each changed object for some seconds, and events wait for the one that is being written.
    """

    async def look() -> Census | None:
        found = await counted.census()
        busy = any(name.startswith(("worker for", "look ")) for name in found["tasks"])
        # The one that was written last is still at hand.
        return None if busy or found["kinds"].get("_Pending", 0) > 1 else found

    try:
        found = await until("an operator at rest", look, seconds=240, every_seconds=1.0)
    except AssertionError:
        raise AssertionError(f"still at work: {sorted((await counted.census())['tasks'])}") from None
    assert found is not None
    return found


def grown(first: Census, last: Census, least: int) -> dict[str, int]:
    """The kinds of objects of which there are so many more."""
    more = {kind: count - first["kinds"].get(kind, 0) for kind, count in last["kinds"].items()}
    return {kind: number for kind, number in more.items() if number >= least}
