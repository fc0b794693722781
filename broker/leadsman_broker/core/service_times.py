"""How long tasks of a queue take, and how fast the queue drains."""

from collections import deque
from collections.abc import Iterable

WINDOW = 200
KNOWN_FROM = 10


class ServiceTimes:
    """S of a capability: the mean service time of its last completions.

    Of the last 200 the top 1 % are clipped to the largest of the rest, so that a hung step does not move the mean.
    Below 10 the mean is unknown.
    """

    __slots__ = ("_mean", "_seconds", "unsaved")

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self._seconds: deque[float] = deque(seconds, maxlen=WINDOW)
        self._mean: float | None = None
        self.unsaved = False
        """Something was added since the last snapshot."""

    def add(self, seconds: float) -> None:
        """Count one completion."""
        self._seconds.append(seconds)
        self._mean = None
        self.unsaved = True

    def mean(self) -> float | None:
        """Return S in seconds, or None while unknown."""
        count = len(self._seconds)
        if count < KNOWN_FROM:
            return None
        if self._mean is None:
            ordered = sorted(self._seconds)
            clipped = -(-count // 100)
            highest = ordered[-1 - clipped]
            self._mean = (sum(ordered[: count - clipped]) + highest * clipped) / count
        return self._mean

    def snapshot(self) -> tuple[float, ...]:
        """Return the window, oldest first, to be saved."""
        self.unsaved = False
        return tuple(self._seconds)


class DrainRate:
    """Tasks that end per second, over the last minute; unknown until ten were seen."""

    __slots__ = ("_counts", "_second", "_since", "_total")

    SPAN = 60

    def __init__(self) -> None:
        self._counts: list[int] | None = None  # one bucket per second; most queues of a fleet never end anything
        self._second = 0
        self._since = 0.0
        self._total = 0

    def add(self, now: float) -> None:
        """Count one task that ended."""
        if self._counts is None:
            self._counts = [0] * self.SPAN
            self._second = int(now)
            self._since = now
        second = int(now)
        if second > self._second:
            self._advance(second)
        self._counts[self._second % self.SPAN] += 1
        self._total += 1

    def per_second(self, now: float) -> float | None:
        """Return the rate, or None while unknown."""
        if self._counts is None:
            return None
        self._advance(int(now))
        if self._total < KNOWN_FROM:
            return None
        return self._total / max(1.0, min(float(self.SPAN), now - self._since))

    def _advance(self, second: int) -> None:
        counts = self._counts
        if counts is None or second <= self._second:
            return
        for gone in range(max(self._second + 1, second - self.SPAN + 1), second + 1):
            self._total -= counts[gone % self.SPAN]
            counts[gone % self.SPAN] = 0
        self._second = second
