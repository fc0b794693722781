"""How fast a queue may lease: so many a minute, evenly.

A token bucket on the broker's clock, kept as the time at which it would be full: one number, that a restart can set
so that no limit is passed. The bucket holds a second's worth, at least one, so that any minute sees no more than
the limit and one second's worth.
"""

_ROUNDING_SECONDS = 1e-6
"""Sums of floats: a token that comes at the alarm must not be found missing by its last bit."""


class Pace:
    """Starts empty: after a restart nobody knows what was leased in the seconds before it."""

    __slots__ = ("_burst", "_full_at", "_gap")

    def __init__(self, per_minute: int | None, now: float) -> None:
        self._gap = 0.0  # seconds between two leases; 0: no limit
        self._burst = 0.0  # seconds in which an empty bucket fills
        self._full_at = 0.0
        self.follow(per_minute, now)

    def follow(self, per_minute: int | None, now: float) -> None:
        """Take over a limit; a new one starts with an empty bucket, an unchanged one goes on."""
        gap = 60.0 / per_minute if per_minute else 0.0
        if gap != self._gap:
            self._gap = gap
            self._burst = max(1.0, gap)
            self._full_at = now + self._burst if gap else 0.0

    @property
    def limited(self) -> bool:
        """Say whether there is a limit."""
        return self._gap > 0.0

    def opens_at(self) -> float:
        """Return from when on a task may be leased; in the past: now."""
        return self._full_at - self._burst + self._gap - _ROUNDING_SECONDS

    def take(self, now: float) -> None:
        """Count a lease."""
        if self._gap:
            self._full_at = max(self._full_at, now) + self._gap

    def tokens(self, now: float) -> int:
        """Return how many tasks may be leased at once now."""
        missing = max(0.0, self._full_at - now)
        return max(0, int((self._burst - missing + _ROUNDING_SECONDS) / self._gap))
