"""Waiting for a condition of a cluster, gently: a poll of the API server is load that the test did not ask for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(
    what: str, check: Callable[[], Awaitable[T]], *, seconds: float = 30.0, every_seconds: float = 0.1
) -> T:
    """Await `check()` until it returns something true and return that; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = await check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds:.0f} s; last seen: {found!r}")
        await asyncio.sleep(every_seconds)


async def happens_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event at most this long; whether it came."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
