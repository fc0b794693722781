"""Pools come, grow and go, over and over: the operator keeps nothing of those that went, nor does the cluster.

The first half fills what is kept for good or for a while: connections, code, the allocator's memory, what is known
of deleted objects. What the second half adds is counted, and there must be none of it for each pool that went.
"""

import asyncio
import json
import os
import signal
import sys
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

HOUR = bool(os.environ.get("LEADSMAN_LONG"))
SECONDS = 3600.0 if HOUR else float(os.environ.get("LEADSMAN_CHURN_SECONDS", "0"))
ROUNDS = 6
"""At least so many, however short the time."""
TOGETHER = 25 if HOUR else 6
"""Pools that live at once. In the hour the machine is the test's; a shorter one runs beside other tests."""
STAYING = ("stays-0", "stays-1")
"""Pools that live through it all; every fifth of the others shares a queue with them."""
SHARED = "shared"

SPARE_BYTES = 8 * 2**20
"""What the allocator may still take in the second half. In an hour that is less than 2 KiB for each pool."""
SPARE_OBJECTS = 500
"""Of one kind, for the same reason; what is kept of a pool, or an object in the cache, is tens of each."""
SPARE_ENTRIES = 10
"""In each container of the operator's, for what happens to be under way; an hour's second half is 4,000 pools."""
MOST_TOMBSTONES = 40_000
"""What is known of deleted objects is bounded by age; only when there are very many, by number."""

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
        """Whether it knows no pool any more but those that stay."""
        return await metric(self.operator, "leadsman_operator_pools") == len(STAYING)

    def resident_bytes(self) -> int:
        """Memory as the kernel counts it."""
        pages = int(Path(f"/proc/{self.operator.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


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


async def live(pools: Pools, name: str, *, shares: bool) -> None:
    """One pool with its queue: made, scaled as kubectl does it, deleted."""
    await pools.apply(capability(name), pool(name, capabilities=[name, SHARED] if shares else [name]))
    await pools.until_ready(name, seconds=120, every_seconds=0.5)
    await pools.kube.patch(f"{pools.path('WorkerPool', name)}/scale", {"spec": {"replicas": 1}}, MERGE)
    await until(f"a pod of {name}", lambda: pools.pods(name), seconds=120, every_seconds=0.5)
    await pools.delete("WorkerPool", name)
    await pools.delete("Capability", name)


async def stay(pools: Pools) -> None:
    """Make the pools that live through it all."""
    await pools.apply(capability(SHARED), *(pool(name, capabilities=[SHARED]) for name in STAYING))
    await pools.until_ready(*STAYING, seconds=120)


async def empty(pools: Pools) -> bool:
    """Whether the namespace has nothing any more of the pools that went."""
    for path in (paths.DEPLOYMENTS, paths.REPLICA_SETS, paths.PODS):
        found = (await pools.kube.get(path.format(namespace=pools.namespace)))["items"]
        if any(not one["metadata"]["name"].startswith(STAYING) for one in found):
            return False
    return True


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 900)
async def test_pools_that_come_and_go_leave_nothing_behind(pools: Pools, counted: Counted) -> None:
    await stay(pools)
    began, rounds, warm = time.monotonic(), 0, 0
    first: Census = {}
    while rounds < ROUNDS or time.monotonic() - began < SECONDS:
        lives = (live(pools, f"pool-{rounds}-{n}", shares=n % 5 == 0) for n in range(TOGETHER))
        await asyncio.gather(*lives)
        await until("an empty namespace", lambda: empty(pools), seconds=120, every_seconds=0.5)
        await until("an operator without pools", counted.forgotten, seconds=60)
        rounds += 1
        show(began, rounds, counted.resident_bytes())
        if not first and rounds >= ROUNDS // 2 and time.monotonic() - began >= SECONDS / 2:
            first, warm = await at_rest(counted), rounds

    last = await at_rest(counted, first)
    went = (rounds - warm) * TOGETHER
    more = last["rss"] - first["rss"]
    objects = last["objects"] - first["objects"]
    sys.stdout.write(f"{went} pools since the first count: {more} bytes, {objects} objects more\n")
    # Connections and timers come and go; what each pool leaves behind is as many objects of one kind as pools went.
    assert not grown(first["kinds"], last["kinds"], max(SPARE_OBJECTS, went // 2))
    assert last["maps"]["Tombstones._young"] + last["maps"]["Tombstones._old"] <= MOST_TOMBSTONES
    assert not grown(first["maps"], last["maps"], SPARE_ENTRIES, but="Tombstones.")
    assert more <= SPARE_BYTES


def show(began: float, rounds: int, resident: int) -> None:
    """Print how far it is; shown when the test fails, or with -s."""
    minutes = (time.monotonic() - began) / 60
    sys.stdout.write(f"{minutes:.1f} min, {rounds * TOGETHER} pools: {resident / 2**20:.1f} MiB\n")
    sys.stdout.flush()


async def at_rest(counted: Counted, before: Census | None = None) -> Census:
    """A count when nothing is worked on.

    kopf keeps a task for each changed object for some seconds, events wait for the one that is being written, and
    the last deletions may still be on their way: what is more than `before` is waited for, and returned after all.
    """
    found: Census = {}

    async def look() -> bool:
        nonlocal found
        found = await counted.census()
        busy = any(str(name).startswith(("worker for", "look ")) for name in found["tasks"])
        # The one that was written last is still at hand.
        waiting = found["kinds"].get("_Pending", 0) > 1
        more = before and grown(before["maps"], found["maps"], SPARE_ENTRIES, but="Tombstones.")
        return not (busy or waiting or more)

    try:
        await until("an operator at rest", look, seconds=240, every_seconds=1.0)
    except AssertionError:
        assert before, f"still at work: {found['tasks']}"
    return found


def grown(first: dict[str, int], last: dict[str, int], least: int, *, but: str = "-") -> dict[str, int]:
    """What there is so much more of, and is not called like `but`."""
    more = {what: count - first.get(what, 0) for what, count in last.items()}
    return {what: number for what, number in more.items() if number >= least and not what.startswith(but)}
