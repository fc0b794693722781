"""One time per key, for what must happen later."""

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush


class Alarms:
    """A heap of times with one live entry per key; setting a key again replaces its time."""

    __slots__ = ("_at", "_heap", "_number")

    def __init__(self) -> None:
        self._at: dict[Hashable, float] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._number = 0

    def set(self, key: Hashable, at: float | None) -> None:
        """Ring for `key` at `at`; None: never."""
        if at is None:
            self._at.pop(key, None)
        elif self._at.get(key) != at:
            self._at[key] = at
            self._number += 1
            heappush(self._heap, (at, self._number, key))

    def sooner(self, key: Hashable, at: float) -> None:
        """Ring for `key` at `at`, or earlier if it was to ring earlier."""
        known = self._at.get(key)
        if known is None or at < known:
            self.set(key, at)

    def head(self) -> float | None:
        """Return the next time anything rings."""
        heap = self._heap
        while heap:
            at, _, key = heap[0]
            if self._at.get(key) == at:
                return at
            heappop(heap)
        return None

    def due(self, now: float) -> Iterator[Hashable]:
        """Yield the keys whose time has come, each once unless it is set again meanwhile for a time past."""
        while (at := self.head()) is not None and at <= now:
            key = heappop(self._heap)[2]
            del self._at[key]
            yield key
