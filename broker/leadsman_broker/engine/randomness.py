"""Randomness that nobody can guess, drawn in portions: a token needs some for every delivery."""

import os
import struct

_WORDS = struct.Struct("<512Q")
_WORD_BITS = 64
_FLOAT_BITS = 53


class SecureRandom:
    """Implements `core.randomness.Randomness` from the operating system's generator."""

    def __init__(self) -> None:
        self._words: list[int] = []

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return (self._word() >> _WORD_BITS - _FLOAT_BITS) / (1 << _FLOAT_BITS)

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""
        value = self._word()
        bits = _WORD_BITS
        while bits < k:
            value = value << _WORD_BITS | self._word()
            bits += _WORD_BITS
        return value >> bits - k

    def _word(self) -> int:
        if not self._words:
            self._words = list(_WORDS.unpack(os.urandom(_WORDS.size)))
        return self._words.pop()
