"""A broker whose capabilities suit tests: short leases, quick retries.

Most tests share one broker process, each in a namespace of its own; one that kills or stops its broker says
`@pytest.mark.usefixtures("own_broker")`.
"""

import json
import os
import urllib.request
import uuid
from collections.abc import Callable, Iterator

import pytest

from broker_process import BrokerProcess, start_broker
from leadsman import SyncClient
from worker_process import CuttingProxy, gate, journal, start_worker

__all__ = ["gate", "journal", "start_broker", "start_worker"]

QUICK = {"backoff_seconds": 0.1, "max_backoff_seconds": 0.2}
STEADY = {**QUICK, "lease_seconds": 20.0, "heartbeat_seconds": 0.5}
"""What a worker hears comes soon, and a lease outlives whatever a busy machine does to it."""
BRIEF = {"lease_seconds": 2.0, "heartbeat_seconds": None}
CAPABILITIES = [
    {"name": "echo", **STEADY},
    {"name": "gate", **STEADY},
    {"name": "steps", **STEADY},
    {"name": "fail", "max_attempts": 3, **STEADY},
    {"name": "block", "lease_seconds": 3.0, **QUICK},
    {"name": "stuck", **STEADY},
    {"name": "small", "max_depth": 2, "retry_after_seconds": 1},
    {"name": "isolated", "max_attempts": 2, **STEADY},
    {"name": "greedy", "lease_seconds": 2.5, **QUICK},
    {"name": "typed", **QUICK},
    {"name": "browser", **QUICK},
    {"name": "llm", **QUICK},
    {"name": "code", **QUICK},
    {"name": "spans", **QUICK},
    {"name": "paid", **STEADY},
    {"name": "chain", "max_attempts": 2, **QUICK},
    {"name": "words", "lease_seconds": 3.0, **QUICK},
    {"name": "chaos", "lease_seconds": 2.0, "max_attempts": 100, "max_reclaims": 100, **QUICK},
    {"name": "once", **STEADY},
    {"name": "gated", "progress_timeout_seconds": 3.0, "max_attempts": 1, **STEADY},
    {"name": "tight", "lease_seconds": 2.0, "progress_timeout_seconds": 1.0, "max_attempts": 1, **QUICK},
    {"name": "impatient", "unreachable_seconds": 1.0, **STEADY},
]


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as shared:
        yield shared


@pytest.fixture
def own_broker() -> None:
    """Asked for by a test that needs a broker to itself."""


@pytest.fixture
def brief_leases() -> None:
    """Asked for by a test in which a lease is lost: every lease is short."""


@pytest.fixture
def namespace(monkeypatch) -> str:
    """The namespace of this test; clients, workers and the command line take it from the environment."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("LEADSMAN_NAMESPACE", name)
    return name


@pytest.fixture
def broker_environment() -> dict[str, str]:
    """What a test that overrides it sets for a broker of its own."""
    return {}


@pytest.fixture
def broker(
    request: pytest.FixtureRequest,
    start_broker: Callable[..., BrokerProcess],
    namespace: str,
    broker_environment: dict[str, str],
) -> BrokerProcess:
    own = "own_broker" in request.fixturenames or broker_environment
    broker = start_broker(env=broker_environment) if own else request.getfixturevalue("shared_broker")
    brief = BRIEF if "brief_leases" in request.fixturenames else {}
    rules = [rule | brief for rule in CAPABILITIES]
    put = urllib.request.Request(
        f"{broker.url}/v1/namespaces/{namespace}/capabilities",
        json.dumps({"generation": 1, "capabilities": rules}).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(put, timeout=60):
        return broker


@pytest.fixture
def client(broker) -> Iterator[SyncClient]:
    with SyncClient(broker.url) as client:
        yield client


@pytest.fixture
def proxy(broker) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(broker.port)
    yield proxy
    proxy.close()


@pytest.fixture
def environment(broker) -> dict[str, str]:
    """What a program needs to find the broker, and nothing else of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEADSMAN_")}
    return kept | {"LEADSMAN_BROKER_URL": broker.url, "LEADSMAN_NAMESPACE": os.environ["LEADSMAN_NAMESPACE"]}
