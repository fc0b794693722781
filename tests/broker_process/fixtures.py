"""pytest fixtures that end every broker a test started."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .process import BrokerProcess


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start as many brokers as a test wants: `start_broker(auth="static", args=["--tokens-file", ...])`."""
    with contextlib.ExitStack() as stack:
        started = 0

        def start(**options: Any) -> BrokerProcess:
            nonlocal started
            started += 1
            folder = options.pop("folder", tmp_path / f"broker-{started}")
            broker = BrokerProcess(folder, **options)
            stack.callback(broker.close)
            return broker.start()

        yield start


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A running broker without authentication, on a real SQLite file."""
    return start_broker()
