"""A real worker for tests: its own process, the handlers of `agents.py`, and a journal of what they did.

from worker_process import start_worker  # noqa: F401  (pytest fixture)

def test_x(broker, start_worker):
    worker = start_worker(broker.url, capabilities=["steps"], slots=2)
    worker.terminate()
"""

from .fixtures import gate, journal, start_worker
from .journal import Gate, Journal
from .process import WorkerProcess
from .proxy import CuttingProxy
from .unreliable import UnreliableProxy

__all__ = ["CuttingProxy", "Gate", "Journal", "UnreliableProxy", "WorkerProcess", "gate", "journal", "start_worker"]
