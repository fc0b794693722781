"""Randomness that nobody can guess, drawn in portions: a token needs some for every delivery."""

import os

_PORTION = 4096
_FLOAT_BITS = 53


class SecureRandom:
    """Implements `core.randomness.Randomness` from the operating system's generator."""

    def __init__(self) -> None:
        self._portion = b""
        self._used = 0

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return self.getrandbits(_FLOAT_BITS) / (1 << _FLOAT_BITS)

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits, up to 8 * 4096 of them."""
        size = (k + 7) // 8
        end = self._used + size
        if end > len(self._portion):
            self._portion = os.urandom(_PORTION)
            self._used, end = 0, size
        value = int.from_bytes(self._portion[self._used : end], "little")
        self._used = end
        return value >> (size * 8 - k)
