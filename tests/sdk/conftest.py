"""A broker whose capabilities suit tests: short leases, quick retries."""

import json
from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess, start_broker
from leadsman import SyncClient
from worker_process import CuttingProxy, gate, journal, start_worker

__all__ = ["gate", "journal", "start_broker", "start_worker"]

QUICK = {"backoff_seconds": 0.1, "max_backoff_seconds": 0.2}
CAPABILITIES = [
    {"name": "echo", **QUICK},
    {"name": "gate", "lease_seconds": 1.5, **QUICK},
    {"name": "steps", "lease_seconds": 1.5, **QUICK},
    {"name": "fail", "max_attempts": 3, **QUICK},
    {"name": "block", "lease_seconds": 2.0, **QUICK},
    {"name": "stuck", "lease_seconds": 4.0, **QUICK},
    {"name": "small", "max_depth": 2, "retry_after_seconds": 1},
    {"name": "impatient", "lease_seconds": 1.5, "unreachable_seconds": 1.0, **QUICK},
]


@pytest.fixture
def capabilities_file(tmp_path):
    path = tmp_path / "capabilities.json"
    path.write_text(json.dumps({"default": CAPABILITIES}))
    return path


@pytest.fixture
def broker(start_broker, capabilities_file) -> BrokerProcess:
    return start_broker(args=["--capabilities-file", str(capabilities_file)])


@pytest.fixture
def client(broker) -> Iterator[SyncClient]:
    with SyncClient(broker.url) as client:
        yield client


@pytest.fixture
def proxy(broker) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(broker.port)
    yield proxy
    proxy.close()
