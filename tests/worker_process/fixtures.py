"""pytest fixtures that end every worker a test started."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .journal import Gate, Journal
from .process import WorkerProcess


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """What the handlers of this test did."""
    return Journal(tmp_path / "journal")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A closed gate; opened at the end, so that no handler waits for ever."""
    return Gate(tmp_path / "gate")


@pytest.fixture
def start_worker(tmp_path: Path, journal: Journal) -> Iterator[Callable[..., WorkerProcess]]:
    """Start as many workers as a test wants; returns once each is connected, unless `connect=False`."""
    with contextlib.ExitStack() as stack:
        started = 0

        def start(broker_url: str, *, connect: bool = True, **options: Any) -> WorkerProcess:
            nonlocal started
            started += 1
            worker = WorkerProcess(tmp_path / f"worker-{started}", journal, broker_url, **options)
            stack.callback(worker.close)
            return worker.connected() if connect else worker

        yield start
