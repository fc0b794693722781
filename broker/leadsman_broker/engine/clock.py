"""The only clock that counts."""

import time


class Clock:
    """The wall clock at start plus monotonic time since, so that a step of the wall clock moves no lease.

    Never earlier than `not_before`, the time of the last commit: a wall clock set back while the broker was down
    must not make young leases and due times lie in the far future.
    """

    def __init__(self, not_before: float = 0.0) -> None:
        self._offset = max(time.time(), not_before) - time.monotonic()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.monotonic() + self._offset
