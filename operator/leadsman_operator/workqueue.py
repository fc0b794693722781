"""Which keys need a look, and when: one look at a time per key, as many keys at once as there is room for.

A key asked for while it is being looked at is looked at once more afterwards. A look that fails is repeated after a
growing, jittered pause of that key alone, so that one bad pool costs the others nothing. A key of which nothing is
heard is looked at all the same, each at a time of its own: a thousand at once would be a burst of work for nothing.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from enum import StrEnum
from typing import Generic, TypeVar

import structlog

K = TypeVar("K", bound=Hashable)

_log = structlog.get_logger(__name__)

FIRST_BACKOFF_SECONDS = 0.25
MAX_BACKOFF_SECONDS = 60.0
JITTER = 0.25
"""Part of a pause that is drawn at random on top of it."""


class Cause(StrEnum):
    """Why a key is looked at; of several, the one that came first."""

    CHANGE = "change"
    """An object changed."""
    BROKER = "broker"
    """The broker's numbers of its queues or workers changed."""
    EVERYTHING = "everything"
    """All are looked at: a leader begins, the signal came or went."""
    ITSELF = "itself"
    """The look before asked for it."""
    RETRY = "retry"
    """The look before failed, or came while the lease was unrenewed for too long."""
    RESYNC = "resync"
    """Nothing was heard of it for a while."""


class WorkQueue(Generic[K]):
    """Runs `look(key)`, which returns in how many seconds the key wants another look by itself.

    It returns `math.inf` when only news can make one necessary, and None when there is nothing (more) to look at:
    then nothing of the key is remembered. `look_seconds` bounds one look: one that hangs is a failure as any other.
    With `resync_seconds` the last look at a key that there is was never longer ago.

    Keys asked for before the start are not kept: a process that only stands by would remember every one there ever
    was. Who starts the queue asks for all that there are.
    """

    def __init__(
        self,
        look: Callable[[K], Awaitable[float | None]],
        *,
        at_once: int = 64,
        look_seconds: float = 90.0,
        resync_seconds: float = math.inf,
        on_look: Callable[[Cause], None] | None = None,
        on_failure: Callable[[K, Exception], None] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._look = look
        self._at_once = at_once
        self._look_seconds = look_seconds
        self._resync_seconds = resync_seconds
        self._on_look = on_look
        self._on_failure = on_failure
        self._random = rng or random.Random()  # noqa: S311 - spreads load, keeps no secret
        self._waiting: deque[K] = deque()
        self._queued: dict[K, Cause] = {}
        self._running: dict[K, asyncio.Task[None]] = {}
        self._again: dict[K, Cause] = {}
        self._timers: dict[K, tuple[asyncio.Handle, float]] = {}
        self._failures: dict[K, int] = {}
        self._open = False
        self._last_look_at = 0.0

    @property
    def depth(self) -> int:
        """Keys that wait for a look that is due."""
        return len(self._waiting)

    @property
    def last_look_at(self) -> float:
        """When a look last ended, in the loop's time."""
        return self._last_look_at

    def start(self) -> None:
        """Begin looking."""
        self._open = True
        self._last_look_at = asyncio.get_running_loop().time()

    async def stop(self) -> None:
        """Stop taking keys, cancel what runs, and return when it has ended."""
        self._open = False
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def add(self, key: K, cause: Cause = Cause.CHANGE) -> None:
        """Ask for a look as soon as there is room."""
        if not self._open:
            return
        if key in self._running:
            self._again.setdefault(key, cause)
            return
        if key in self._queued:
            return
        self._cancel_timer(key)
        self._queued[key] = cause
        self._waiting.append(key)
        self._dispatch()

    def add_after(self, key: K, seconds: float, cause: Cause = Cause.CHANGE) -> None:
        """Ask for a look in so many seconds; an earlier one that was asked for stands."""
        if not self._open or key in self._queued:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(0.0, seconds)
        if key in self._timers:
            timer, rings_at = self._timers[key]
            if rings_at <= due:
                return
            timer.cancel()
        # The time is kept beside the handle: for one that has come uvloop gives a handle that does not know it.
        self._timers[key] = (loop.call_at(due, self._ring, key, cause), due)

    def _ring(self, key: K, cause: Cause) -> None:
        self._timers.pop(key, None)
        self.add(key, cause)

    def _cancel_timer(self, key: K) -> None:
        if key in self._timers:
            timer, _ = self._timers.pop(key)
            timer.cancel()

    def _dispatch(self) -> None:
        while self._open and self._waiting and len(self._running) < self._at_once:
            key = self._waiting.popleft()
            cause = self._queued.pop(key)
            if self._on_look is not None:
                self._on_look(cause)
            self._running[key] = asyncio.get_running_loop().create_task(self._run(key), name=f"look {key}")

    def _add_next(self, key: K, seconds: float) -> None:
        """Queue the look that comes if nothing happens. Those for nothing's sake drift apart by their jitter."""
        resync = self._resync_seconds * self._random.uniform(0.5, 1.0)
        if min(seconds, resync) < math.inf:
            self.add_after(key, min(seconds, resync), Cause.ITSELF if seconds <= resync else Cause.RESYNC)

    async def _run(self, key: K) -> None:
        try:
            async with asyncio.timeout(self._look_seconds):
                again_seconds = await self._look(key)
        except Exception as error:  # noqa: BLE001 - whatever a look raises is that key's failure alone
            self._fail(key, error)
        else:
            self._failures.pop(key, None)
            if again_seconds is not None:
                self._add_next(key, again_seconds)
        finally:
            self._last_look_at = asyncio.get_running_loop().time()
            del self._running[key]
            cause = self._again.pop(key, None)
            if cause is not None:
                self.add(key, cause)
            self._dispatch()

    def _fail(self, key: K, error: Exception) -> None:
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        pause = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** (min(failures, 30) - 1))
        pause *= 1 + self._random.uniform(0, JITTER)
        _log.warning("look failed", key=key, error=str(error) or type(error).__name__, again_in=round(pause, 2))
        if self._on_failure is not None:
            self._on_failure(key, error)
        self.add_after(key, pause, Cause.RETRY)
