"""Waiting for a condition with a deadline; the only way in which these tests wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_EVERY_SECONDS = 0.02
_SECONDS = 60.0
"""Far beyond what anything takes: a busy machine must not fail a test."""


def eventually(check: Callable[[], T], *, what: str = "the condition", seconds: float = _SECONDS) -> T:
    """Call `check` until it returns something true and return that; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds:.0f} s; last seen: {found!r}")
        time.sleep(_EVERY_SECONDS)


async def eventually_async(
    check: Callable[[], Awaitable[T]], *, what: str = "the condition", seconds: float = _SECONDS
) -> T:
    """`eventually` for a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        found = await check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds:.0f} s; last seen: {found!r}")
        await asyncio.sleep(_EVERY_SECONDS)
