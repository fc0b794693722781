"""Callers that wait for a task to end."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from leadsman_broker.core.rows import Ending


class Watches:
    """Futures by task id, done when the end of the task is durable."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    @contextmanager
    def on(self, task_id: str) -> Iterator[asyncio.Future[None]]:
        """Watch a task while the context lasts. Read the task inside of it: an end before that is not told."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task_id, set()).add(future)
        try:
            yield future
        finally:
            if (waiting := self._waiting.get(task_id)) is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[task_id]

    def ended(self, endings: Iterable[Ending]) -> None:
        """Tell those who wait for one of these."""
        if not self._waiting:
            return
        for ending in endings:
            self._finish(self._waiting.pop(ending.ended.live.id, ()))

    def close(self) -> None:
        """Let everyone go: the broker shuts down."""
        for waiting in list(self._waiting.values()):
            self._finish(waiting)
        self._waiting.clear()

    @staticmethod
    def _finish(waiting: Iterable[asyncio.Future[None]]) -> None:
        for future in waiting:
            if not future.done():
                future.set_result(None)
