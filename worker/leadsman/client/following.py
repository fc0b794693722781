"""Waiting for many tasks with few calls at a time."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from leadsman.wire.tasks import TaskState, TaskView

FINAL_STATES = frozenset(TaskState) - {TaskState.DELAYED, TaskState.READY, TaskState.LEASED}

_AT_ONCE = 32
_TURN_SECONDS = 1.0
"""How long one call waits for its task while other tasks wait for a call."""


async def follow(
    look: Callable[[str, float], Awaitable[TaskView]],
    ids: Iterable[str],
    park_seconds: float,
    timeout_seconds: float | None,
) -> AsyncGenerator[TaskView, None]:
    """Yield each task when it has ended, in the order in which that is seen; after the timeout the rest as it is.

    `look` reads a task and waits for its end for so many seconds. The tasks take turns, so that one which is still
    far from its end does not keep those behind it from being seen.
    """
    waiting = deque(dict.fromkeys(ids))
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    looking: set[asyncio.Task[TaskView]] = set()
    try:
        while waiting or looking:
            while waiting and len(looking) < _AT_ONCE:
                crowded = len(waiting) + len(looking) > _AT_ONCE
                park = _TURN_SECONDS if crowded else park_seconds
                if deadline is not None:
                    park = min(park, max(0.0, deadline - time.monotonic()))
                looking.add(asyncio.ensure_future(look(waiting.popleft(), park)))
            ended, looking = await asyncio.wait(looking, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                view = each.result()
                if view.state in FINAL_STATES or (deadline is not None and time.monotonic() >= deadline):
                    yield view
                else:
                    waiting.append(view.id)
    finally:
        for each in looking:
            each.cancel()
        if looking:
            await asyncio.wait(looking)
