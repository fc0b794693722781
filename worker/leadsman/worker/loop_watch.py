"""Whether the handlers' event loop still turns, seen from another thread."""

import asyncio
import sys
import threading
import time
import traceback

from leadsman.logs import get_logger

_CONFIRMING_TICKS = 4
_CONFIRMING_SECONDS = 0.1
"""A process that was stopped and continued sees a long silence too; a sound loop answers within these ticks, of
which only those count that lie so far apart."""
_SHOWN_FRAMES = 6


class LoopWatch:
    """Pings a loop and measures its silence. `tick` belongs to one thread, the rest to any."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        self._loop = loop
        self._thread_id = thread_id
        self._log = get_logger("leadsman.worker")
        self._lock = threading.Lock()
        self._pinged_at: float | None = None
        self._last_gap = (0.0, 0.0)
        """(when it ended, how long it was)"""
        self._over_limit_ticks = 0
        self._counted_at = 0.0
        self._reported = False

    def tick(self, warn_seconds: float, limit_seconds: float) -> bool:
        """Look at the loop once; return whether it is wedged: silent for longer than `limit_seconds`."""
        silent = self.silence()
        if silent is None:
            self._over_limit_ticks = 0
            self._ping()
            return False
        if silent > warn_seconds and not self._reported:
            self._reported = True
            self._log.warning("the event loop is blocked", blocked_seconds=round(silent, 2), at=self.where())
        if silent <= limit_seconds:
            self._over_limit_ticks = 0
        elif time.monotonic() - self._counted_at >= _CONFIRMING_SECONDS:
            self._counted_at = time.monotonic()
            self._over_limit_ticks += 1
        return self._over_limit_ticks > _CONFIRMING_TICKS

    def silence(self) -> float | None:
        """Return for how long a ping is unanswered; None when none is out."""
        with self._lock:
            return None if self._pinged_at is None else time.monotonic() - self._pinged_at

    def silent_since(self, start: float) -> float:
        """Return the longest silence known that reached past the moment `start` of the monotonic clock."""
        with self._lock:
            ended, length = self._last_gap
            recent = length if ended >= start else 0.0
            return recent if self._pinged_at is None else max(recent, time.monotonic() - self._pinged_at)

    def where(self) -> list[str]:
        """Return the innermost frames of the loop's thread, for a person to read."""
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001  the only way to see another thread
        if frame is None:
            return []
        shown = traceback.extract_stack(frame)[-_SHOWN_FRAMES:]
        return [f"{entry.filename}:{entry.lineno} {entry.name}" for entry in shown]

    def _ping(self) -> None:
        with self._lock:
            self._pinged_at = time.monotonic()
        try:
            self._loop.call_soon_threadsafe(self._pong)
        except RuntimeError:  # the loop is closed: the process is ending, and nothing is silent
            with self._lock:
                self._pinged_at = None

    def _pong(self) -> None:
        now = time.monotonic()
        with self._lock:
            gap = 0.0 if self._pinged_at is None else now - self._pinged_at
            self._pinged_at = None
            reported, self._reported = self._reported, False
            if gap > self._last_gap[1] or now - self._last_gap[0] > gap:
                self._last_gap = (now, gap)
        if reported:
            self._log.info("the event loop turns again", blocked_seconds=round(gap, 2))
