import itertools
import os
import subprocess
import sys

import pytest

from broker_process import BrokerClient, BrokerProcess, broker, start_broker
from store_rig import reopen, store

__all__ = ["broker", "reopen", "start_broker", "store"]

_NAMESPACES = itertools.count(1)


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory):
    """One broker for all tests that only use a namespace of their own and do it no harm."""
    with BrokerProcess(tmp_path_factory.mktemp("shared-broker")) as broker:
        yield broker
        assert broker.alive, broker.log


@pytest.fixture
async def client(shared_broker):
    """A caller with a namespace of its own, in which the queue `work` has defaults."""
    async with BrokerClient(shared_broker.url, namespace=f"test-{next(_NAMESPACES)}") as client:
        await client.configure({"name": "work"})
        yield client


@pytest.fixture
async def lone_client(broker):
    """The only caller of a broker that the test may do anything to."""
    async with BrokerClient(broker.url) as client:
        await client.configure({"name": "work"})
        yield client


@pytest.fixture
def small_disk(tmp_path, request):
    """A real file system of so many MiB: `@pytest.mark.parametrize("small_disk", [24], indirect=True)`."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root on Linux")
    folder = tmp_path / "small-disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "leadsman-test", folder]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)
