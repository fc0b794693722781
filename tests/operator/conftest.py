"""Time that passes only when everybody waits: hours of backoff in a millisecond, in the order they would happen."""

import asyncio
import selectors
from collections.abc import Iterator

import pytest


class _Selector(selectors.DefaultSelector):
    """Where the loop would sleep, the clock moves on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is not None:
            self.now += max(timeout, 0.0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits for something that nobody will do")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


@pytest.fixture
def virtual_time() -> Iterator[asyncio.Runner]:
    """`virtual_time.run(coroutine)` runs it with a clock of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner
