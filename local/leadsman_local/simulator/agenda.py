"""The virtual clock: what happens when, in order."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Happening = Callable[[], None]


class Agenda:
    """Runs what was put down, at its time; what has the same time runs in the order in which it was put down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        """Happenings so far."""
        self._heap: list[tuple[float, int, Happening]] = []
        self._numbers = count()

    def at(self, time: float, happening: Happening) -> None:
        """Put something down; a time that is over means now."""
        heappush(self._heap, (max(time, self.now), next(self._numbers), happening))

    def after(self, seconds: float, happening: Happening) -> None:
        """Put something down for `seconds` from now."""
        self.at(self.now + seconds, happening)

    def run(self, until: float) -> None:
        """Let time pass up to and including `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, happening = heappop(heap)
            self.events += 1
            happening()
        self.now = until
