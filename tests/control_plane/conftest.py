"""The tier's world: one control plane for the session, a broker, operators and a namespace for each test."""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_process import BrokerProcess, broker, start_broker
from cluster import ControlPlane
from cluster.fixtures import control_plane, namespace
from fleet import Behaviour, BrokerClient, Fleet, Kube, OperatorProcess, recorded
from fleet.pools import Pools
from fleet.scene import Scene

__all__ = ["broker", "control_plane", "namespace", "start_broker"]

_CRDS = Path(__file__).resolve().parents[2] / "crds"
_SHOWN_LINES = 200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that it does not run alone at the end, on one of several processes."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane) -> ControlPlane:
    """The control plane once it serves the project's kinds."""
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(_CRDS))
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(_CRDS), "--timeout=60s")
    return control_plane


@pytest.fixture
async def kube(control_plane: ControlPlane) -> AsyncIterator[Kube]:
    """An administrator's client of the API server."""
    async with Kube(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
def pools(kube: Kube, namespace: str) -> Pools:
    """The objects of the test's namespace."""
    return Pools(kube, namespace)


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[BrokerClient]:
    """A client of the test's broker, for producers and for looking into it."""
    async with BrokerClient(broker.url) as one:
        yield one
    _show("broker", broker.log)


@pytest.fixture
async def scene(
    kube: Kube, namespace: str, pools: Pools, client: BrokerClient, broker: BrokerProcess
) -> AsyncIterator[Scene]:
    """A fleet whose pods take a while to start and to be probed: a move has a middle to be interrupted in."""
    slow = Behaviour(startup=lambda rng: rng.uniform(0.5, 1.5), probe=lambda rng: rng.uniform(0.5, 1.0))
    async with (
        Fleet(kube, broker.url, namespaces=(namespace,), behaviour=slow) as fleet,
        recorded(kube, namespace) as history,
    ):
        yield Scene(pools, client, fleet, history)


@pytest.fixture
def start_operator(crds: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """Start operators: `start_operator(broker_url=broker.url, namespaces=[namespace])`; more options as its class.

    Their logs are shown when the test fails.
    """
    with contextlib.ExitStack() as stack:
        started = 0

        def start(**options: Any) -> OperatorProcess:
            nonlocal started
            started += 1
            folder = options.pop("folder", tmp_path / f"operator-{started}")
            operator = OperatorProcess(folder, kubeconfig=crds.kubeconfig, **options)
            stack.callback(lambda: _show(operator.folder.name, operator.log))
            stack.callback(operator.close)
            return operator.start()

        yield start


@pytest.fixture
def operator(
    start_operator: Callable[..., OperatorProcess], broker: BrokerProcess, namespace: str
) -> OperatorProcess:
    """A running operator of the test's namespace and broker."""
    return start_operator(broker_url=broker.url, namespaces=[namespace])


def _show(name: str, log: str) -> None:
    """Print the end of a log: pytest shows what was written only when the test fails."""
    tail = "\n".join(log.splitlines()[-_SHOWN_LINES:])
    sys.stdout.write(f"--- {name}\n{tail}\n")
