"""A real broker for tests: its own process, its own SQLite file, a port that outlives a restart.

from broker_process import broker, start_broker  # noqa: F401  (pytest fixtures)

def test_x(broker: BrokerProcess):
    broker.kill()       # SIGKILL, as the kernel would
    broker.restart()    # same port, same data
"""

from .client import BrokerClient, Reply, StreamEvent, strictly
from .fixtures import broker, start_broker
from .process import BrokerProcess, BrokerStartError, free_port
from .waiting import eventually, eventually_async

__all__ = [
    "BrokerClient",
    "BrokerProcess",
    "BrokerStartError",
    "Reply",
    "StreamEvent",
    "broker",
    "eventually",
    "eventually_async",
    "free_port",
    "start_broker",
    "strictly",
]
