"""What the core needs of a source of randomness."""

from typing import Protocol


class Randomness(Protocol):
    """`random.Random` and `random.SystemRandom` both fit; tests pass a seeded one."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""
        ...
