"""Which objects are known to be gone, so that a list begun before their deletion cannot bring them back.

Remembered for as long as such a list may last: an API server compacts its history every five minutes, and answers
the rest of an older list with 410. Kept as two generations, of which the older is dropped as a whole: a namespace
that goes is thousands of UIDs at once, and each is one string in one set.
"""

import time
from collections.abc import Callable

LASTS_SECONDS = 600.0
"""At least so long a deletion is remembered; at most twice as long while others follow."""
_GENERATION = 20_000
"""So many deletions end a generation early: whatever happens, memory stays bounded."""


class Tombstones:
    """UIDs of deleted objects."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._young: set[str] = set()
        self._old: set[str] = set()
        self._began = clock()

    def __contains__(self, uid: str) -> bool:
        return uid in self._young or uid in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add(self, uid: str) -> None:
        """Remember that an object was deleted."""
        now = self._clock()
        if now - self._began >= LASTS_SECONDS or len(self._young) >= _GENERATION:
            # After a long silence what is young is old enough to go with the rest.
            self._old = self._young if now - self._began < 2 * LASTS_SECONDS else set()
            self._young, self._began = set(), now
        self._young.add(uid)
