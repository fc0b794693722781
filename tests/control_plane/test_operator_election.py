"""Two operators and one lease: one acts, the other takes over, and nobody acts on an old lease.

A lease lasts fifteen seconds, and so does the patience with a silent broker: the scenes wait side by side, each in
a namespace of its own with operators of its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import BrokerClient, Kube, OperatorProcess, ReplicaHistory, recorded, until
from fleet.link import Link
from fleet.manifests import capability, pool
from fleet.operator_metrics import metric
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit
from leadsman_operator.scaling.model import SIGNAL_STALE_SECONDS

Start = Callable[..., OperatorProcess]


@dataclass
class Pair:
    """A pool `browser` at zero, and two operators of it of which `one` holds the lease."""

    kube: Kube
    client: BrokerClient
    pools: Pools
    history: ReplicaHistory
    one: OperatorProcess
    two: OperatorProcess
    links: dict[str, Link] = field(default_factory=dict)
    """What can be cut between `one` and the API server, or the broker."""

    async def submit(self, count: int) -> None:
        await self.client.submit(self.pools.namespace, *[TaskSubmit(capability="browser")] * count)

    async def until_holder(self, holder: str, seconds: float = 90) -> None:
        async def look() -> bool:
            return (await self._lease()).get("holderIdentity") == holder

        await until(f"{holder} as the holder", look, seconds=seconds)

    async def until_leads(self, operator: OperatorProcess, *, leads: bool) -> None:
        async def look() -> bool:
            return (await metric(operator, "leadsman_operator_leader") == 1) is leads

        await until(f"leads: {leads}", look, seconds=60)

    async def until_signal_lost(self, operator: OperatorProcess) -> None:
        """Wait until the broker's word is too old to be believed."""

        async def look() -> bool:
            return await metric(operator, "leadsman_operator_signal_age_seconds") > SIGNAL_STALE_SECONDS

        await until("a stale signal", look, seconds=60)

    async def until_sizes(self, *sizes: int) -> None:
        await self.history.until(f"{sizes}", lambda seen: seen.replicas("browser") == [*sizes], seconds=90)

    async def holds(self) -> str:
        return str((await self._lease()).get("holderIdentity"))

    async def _lease(self) -> dict[str, Any]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.pools.namespace}/leases/leadsman-operator"
        return (await self.kube.find(path) or {}).get("spec", {})  # type: ignore[no-any-return]


class Stage:
    """Makes pairs."""

    def __init__(
        self,
        plane: ControlPlane,
        kube: Kube,
        client: BrokerClient,
        broker: BrokerProcess,
        start: Start,
        folder: Path,
    ) -> None:
        self._plane, self._kube, self._client = plane, kube, client
        self._broker, self._start, self._folder = broker, start, folder

    @contextlib.asynccontextmanager
    async def pair(self, scene: str) -> AsyncIterator[Pair]:
        """Two running operators of a namespace of their own, and a pool that is ready at zero."""
        broker_port = urlsplit(self._broker.url).port
        api_port = urlsplit(self._plane.url).port
        assert broker_port is not None
        assert api_port is not None
        with self._plane.namespace(scene) as namespace:
            async with (
                Link(api_port) as api,
                Link(broker_port) as broker,
                recorded(self._kube, namespace) as history,
            ):
                kubeconfig = through(self._plane.kubeconfig, self._folder / f"{scene}.kubeconfig", api.port)
                reach = {"broker_url": f"http://127.0.0.1:{broker.port}", "env": {"KUBECONFIG": str(kubeconfig)}}
                one = await asyncio.to_thread(self._operator, namespace, "one", **reach)
                pools = Pools(self._kube, namespace)
                two = await asyncio.to_thread(self._operator, namespace, "two", broker_url=self._broker.url)
                links = {"api": api, "broker": broker}
                found = Pair(self._kube, self._client, pools, history, one, two, links)
                await found.until_holder("one")
                await pools.apply(capability("browser"), pool("browser"))
                await pools.until_ready("browser", seconds=90)
                try:
                    yield found
                finally:
                    for link in links.values():
                        link.mend()
                    await asyncio.to_thread(one.close)
                    await asyncio.to_thread(two.close)

    def _operator(self, namespace: str, identity: str, **options: Any) -> OperatorProcess:
        return self._start(
            namespaces=[namespace],
            leader_election=True,
            lease_namespace=namespace,
            args=["--identity", identity],
            folder=self._folder / f"{namespace}-{identity}",
            **options,
        )


def through(kubeconfig: Path, path: Path, port: int) -> Path:
    """Write the same kubeconfig for another port of the API server's address."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def stage(
    crds: ControlPlane,
    kube: Kube,
    client: BrokerClient,
    broker: BrokerProcess,
    start_operator: Start,
    tmp_path: Path,
) -> Stage:
    return Stage(crds, kube, client, broker, start_operator, tmp_path)


async def a_killed_leader_is_replaced(pair: Pair) -> None:
    await pair.until_leads(pair.two, leads=False)

    pair.one.kill()
    await pair.submit(5)
    await pair.until_holder("two")

    await pair.until_sizes(0, 5)


async def a_frozen_leader_does_nothing_when_it_wakes(pair: Pair) -> None:
    pair.one.pause()
    await pair.until_holder("two")
    await pair.until_leads(pair.two, leads=True)
    pair.two.pause()
    # The frozen leader wakes with work to be done, its lease gone and the new leader silent.
    await pair.submit(5)
    pair.one.resume()

    await pair.until_leads(pair.one, leads=False)
    assert pair.history.replicas("browser") == [0]

    pair.two.resume()
    await pair.until_sizes(0, 5)


async def a_leader_cut_off_from_the_api_stops_and_is_replaced(pair: Pair) -> None:
    pair.links["api"].cut()
    await pair.submit(5)

    # Not one write of its own is lost on the way and comes later.
    await pair.until_leads(pair.one, leads=False)
    await pair.until_holder("two")
    await pair.until_sizes(0, 5)

    pair.links["api"].mend()
    await pair.submit(2)
    await pair.until_sizes(0, 5, 7)
    assert await pair.holds() == "two"
    await pair.until_leads(pair.one, leads=False)


async def a_leader_cut_off_from_the_broker_keeps_the_lease_and_the_fleet_as_it_is(pair: Pair) -> None:
    await pair.submit(3)
    await pair.until_sizes(0, 3)

    pair.links["broker"].cut()
    await pair.submit(4)
    await pair.pools.until_condition("browser", "SignalHealthy", "False", reason="SignalLost", seconds=60)
    assert await pair.holds() == "one"
    assert pair.history.replicas("browser") == [0, 3]

    pair.links["broker"].mend()
    await pair.pools.until_condition("browser", "SignalHealthy", "True", seconds=60)
    await pair.until_sizes(0, 3, 7)
    assert await pair.holds() == "one"


async def a_leader_that_was_frozen_alone_takes_up_what_came_meanwhile(pair: Pair) -> None:
    pair.two.kill()
    pair.one.pause()
    # The stimulus: longer than a leader may act on its last renewal.
    await asyncio.sleep(11)
    await pair.pools.apply(capability("email"), pool("email", minReplicas=1))

    pair.one.resume()

    await pair.pools.until_ready("email", seconds=90)
    assert await pair.holds() == "one"


SCENES = {
    "alone": a_leader_that_was_frozen_alone_takes_up_what_came_meanwhile,
    "killed": a_killed_leader_is_replaced,
    "frozen": a_frozen_leader_does_nothing_when_it_wakes,
    "no-api": a_leader_cut_off_from_the_api_stops_and_is_replaced,
    "no-broker": a_leader_cut_off_from_the_broker_keeps_the_lease_and_the_fleet_as_it_is,
}


async def test_however_a_leader_is_lost_exactly_one_acts(stage: Stage) -> None:
    failures = {}

    async def run(name: str) -> None:
        try:
            async with stage.pair(name) as pair:
                await SCENES[name](pair)
        except AssertionError as error:
            failures[name] = error

    await asyncio.gather(*(run(name) for name in SCENES))

    assert not failures


async def test_a_leader_that_is_told_to_stop_hands_the_lease_over_at_once(stage: Stage) -> None:
    async with stage.pair("told") as pair:
        assert await asyncio.to_thread(pair.one.terminate) == 0

        # The lease lasts fifteen seconds; a released one is taken at the next look.
        await pair.until_holder("two", seconds=10)


async def test_a_lone_leader_without_a_network_comes_back_to_what_is_so_by_then(stage: Stage) -> None:
    """No watch tells it what went and came meanwhile; nothing that it remembers is taken for the present."""
    async with stage.pair("no-network") as pair:
        pair.two.kill()
        await pair.pools.apply(capability("old"), pool("old", minReplicas=1))
        await pair.pools.until_ready("old", seconds=60)
        await pair.submit(3)
        await pair.until_sizes(0, 3)

        pair.links["api"].cut()
        pair.links["broker"].cut()
        await pair.until_leads(pair.one, leads=False)
        await pair.pools.delete("WorkerPool", "old")
        await pair.pools.apply(capability("email"), pool("email", minReplicas=1), pool("browser", maxReplicas=6))
        await pair.submit(9)
        await pair.until_signal_lost(pair.one)
        pair.links["api"].mend()
        pair.links["broker"].mend()

        await pair.pools.until_ready("email", seconds=90)
        await pair.until_sizes(0, 3, 6)

        async def known() -> bool:
            return await metric(pair.one, "leadsman_operator_pools") == 2

        await until("two pools, the deleted one forgotten", known, seconds=60)
        assert await pair.holds() == "one"
