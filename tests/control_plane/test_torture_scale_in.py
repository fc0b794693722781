"""Scale-in under load, on the real ReplicaSet controller while other Deployments churn: nobody busy is taken away.

The fleet itself says who held a lease at the moment of its deletion; neither the operator nor the broker is asked.
"""

import contextlib
import os
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import BrokerClient, Fleet, Kube, OperatorProcess, ReplicaHistory, churning, recorded, until
from fleet.load import PATTERNS, Load
from fleet.manifests import capability, pool
from fleet.pools import Pools

SCALE_INS = 500 if os.environ.get("LEADSMAN_LONG") else 40
SECONDS_EACH = 10

STEPS = {"browser": 2, "code": None, "email": None, "llm": 4, "search": None, "vision": 3}
"""Pool -> how many workers one scale-in may take away."""


@dataclass
class Torture:
    """Six pools whose work comes and goes in four patterns, among a dozen Deployments that somebody else scales."""

    pools: Pools
    fleet: Fleet
    history: ReplicaHistory
    load: Load

    async def open(self) -> None:
        for name, step in STEPS.items():
            # One task for each slot and a short window: the size follows the load closely, there is much to take.
            scaling = {"targetTasksPerSlot": 1, "scaleIn": {"idleSeconds": 1}}
            if step:
                scaling["scaleIn"]["maxStep"] = step
            await self.pools.apply(capability(name), pool(name, minReplicas=1, maxReplicas=8, scaling=scaling))
        await self.pools.until_ready(*STEPS)

    async def until_scale_ins(self, count: int) -> None:
        """Go on until so many scale-ins were stored, or a busy worker went."""
        await self.history.until(
            f"{count} scale-ins",
            lambda sizes: bool(self.fleet.busy_deletions) or sum(map(sizes.scale_ins, STEPS)) >= count,
            seconds=SECONDS_EACH * count,
        )

    async def until_at_rest(self) -> None:
        """Wait until every pool is at its minimum with its worker in service."""
        await until("every pool at its minimum", self._at_rest, seconds=120)

    async def _at_rest(self) -> bool:
        for name in STEPS:
            deployment = await self.pools.deployment(name)
            if deployment is None or deployment["spec"]["replicas"] != 1:
                return False
            if deployment["status"].get("readyReplicas") != 1 or len(await self.pools.pods(name)) != 1:
                return False
        return all(worker.ready for worker in self.fleet.workers.values())

    def assert_no_busy_worker_was_deleted(self) -> None:
        taken = [f"{pod.pool}/{pod.name} held {list(pod.held)}" for pod in self.fleet.busy_deletions]
        of = len(self.fleet.deleted)
        assert not taken, f"{len(taken)} of {of} deleted workers held a lease: {taken}"


@pytest.fixture
async def torture(
    kube: Kube,
    control_plane: ControlPlane,
    namespace: str,
    pools: Pools,
    broker: BrokerProcess,
    client: BrokerClient,
) -> AsyncIterator[Torture]:
    seed = 1
    async with contextlib.AsyncExitStack() as stack:
        other = stack.enter_context(control_plane.namespace("other"))
        fleet = await stack.enter_async_context(Fleet(kube, broker.url, namespaces=(namespace, other), seed=seed))
        await stack.enter_async_context(churning(kube, other, seed=seed))
        history = await stack.enter_async_context(recorded(kube, namespace))
        load = Load(client, namespace, list(STEPS), random.Random(seed), list(PATTERNS.values()))
        yield Torture(pools, fleet, history, load)


@pytest.mark.long
@pytest.mark.timeout(SECONDS_EACH * SCALE_INS + 300)
@pytest.mark.usefixtures("operator")
async def test_scale_in_spares_every_worker_that_holds_a_lease(torture: Torture, client: BrokerClient) -> None:
    await torture.open()

    async with torture.load.running():
        await torture.until_scale_ins(SCALE_INS)
    torture.assert_no_busy_worker_was_deleted()
    await torture.until_at_rest()

    torture.assert_no_busy_worker_was_deleted()
    once = dict.fromkeys(torture.load.accepted, 1)
    assert torture.fleet.book.completed == once, "a task was lost or done twice"
    assert torture.fleet.book.started == once, "a task was delivered twice"
    living = set(torture.fleet.workers)
    assert not [fence for fence in (await client.stats()).fences if fence.pod_uid in living]


async def test_a_bare_replica_change_is_caught_taking_busy_workers_away(
    torture: Torture,
    broker: BrokerProcess,
    namespace: str,
    start_operator: Callable[..., OperatorProcess],
) -> None:
    """The same load, the same check, the operator without its protocol: the proof above can fail."""
    start_operator(broker_url=broker.url, namespaces=[namespace], program="fleet.bare_operator")
    await torture.open()

    async with torture.load.running():
        await torture.until_scale_ins(40)

    with pytest.raises(AssertionError, match="held a lease"):
        torture.assert_no_busy_worker_was_deleted()
