"""Lanes ordered by a key that may have grown since it was noted.

Nothing moves a lane when its key grows: what comes up first is looked at again, and noted anew if another lane may
be before it now. A key that falls must be told. So a change costs nothing until it matters, and then a few
comparisons, however many lanes there are.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from leadsman_broker.core.lanes import Lane

Key = tuple[Any, ...]
Entry = tuple[Key, int, Lane]


class Ranking:
    """A heap of lanes, each with one entry that counts. `key` gives a lane's true key."""

    __slots__ = ("_entries", "_heap", "_key")

    def __init__(self, key: Callable[[Lane], Key]) -> None:
        self._key = key
        self._heap: list[Entry] = []
        self._entries: dict[Lane, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def lanes(self) -> list[Lane]:
        """Return every lane, in no order."""
        return [*self._entries]

    def put(self, lane: Lane) -> None:
        """Add a lane."""
        if len(self._entries) == 1:
            self._note(self._top())  # while it was alone, nobody told of its keys
        self._note(lane)

    def remove(self, lane: Lane) -> None:
        """Take a lane out."""
        del self._entries[lane]
        if not self._entries:
            self._heap.clear()

    def fell(self, lane: Lane) -> None:
        """Hear that a lane's key may be lower than it was."""
        if len(self._entries) > 1:
            self._note(lane)

    def first(self) -> Lane:
        """Return the lane with the lowest key. Only to be asked while there is one."""
        if len(self._entries) == 1:
            return self._top()
        while True:
            lane = self._top()
            noted = self._heap[0][0]
            key = self._key(lane)
            if key <= noted:
                return lane
            entry = (key, lane.number, lane)
            self._entries[lane] = entry
            heapreplace(self._heap, entry)

    def _top(self) -> Lane:
        heap = self._heap
        entries = self._entries
        while True:
            lane = heap[0][2]
            if entries.get(lane) is heap[0]:
                return lane
            heappop(heap)

    def _note(self, lane: Lane) -> None:
        entry = (self._key(lane), lane.number, lane)
        self._entries[lane] = entry
        heappush(self._heap, entry)
        if len(self._heap) > 64 + 4 * len(self._entries):
            self._heap = [*self._entries.values()]
            heapify(self._heap)
