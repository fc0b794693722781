"""Waits between attempts, spread so that many callers never come back in one wave."""

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Exponential, and each wait drawn evenly between half and all of it.

    `random` only spreads load; nothing secret depends on it.
    """

    base_seconds: float = 0.1
    max_seconds: float = 5.0
    failures: int = field(default=0, init=False)

    def next(self) -> float:
        """Return how long to wait after one more failure, in seconds."""
        ceiling = min(self.max_seconds, self.base_seconds * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311

    def reset(self) -> None:
        """Begin again after a success."""
        self.failures = 0


def jittered(seconds: float, share: float = 0.1) -> float:
    """Return `seconds` give or take `share` of it."""
    return seconds * random.uniform(1.0 - share, 1.0 + share)  # noqa: S311


def later(seconds: float, share: float = 0.25) -> float:
    """Return `seconds` plus up to `share` of it: never earlier than was asked."""
    return seconds * random.uniform(1.0, 1.0 + share)  # noqa: S311
