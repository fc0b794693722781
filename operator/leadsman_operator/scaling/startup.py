"""How long a pool's pods take from being made to asking for work: P of the scaling formulas.

Measured on our own monotonic clock, from the moment the watch shows a new pod to the moment the broker shows its
worker; the clocks of nodes and broker do not matter.
"""

import statistics
from collections import OrderedDict, deque
from collections.abc import Iterable

from leadsman_operator.scaling.model import DEFAULT_STARTUP_SECONDS

_SAMPLES = 20
_WATCHED = 50_000
"""Pods that are being waited for at once, over all pools."""
_LONGEST_SECONDS = 3600.0
"""A pod that was unschedulable for longer says nothing about how long a start takes."""
_STEP_SECONDS = 5.0
"""A start-up time is told to the broker in whole steps: every measurement moves it a little."""


def told_to_broker(measured: Iterable[float | None]) -> float:
    """Return what the broker is told of a capability: the slowest serving pool's time, in whole steps."""
    slowest = max((seconds for seconds in measured if seconds is not None), default=DEFAULT_STARTUP_SECONDS)
    return min(max(-(-slowest // _STEP_SECONDS) * _STEP_SECONDS, _STEP_SECONDS), _LONGEST_SECONDS)


class PodBirths:
    """When each pod that is still starting was first seen."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, float] = OrderedDict()

    def born(self, uid: str, now: float) -> None:
        """Note that a watch showed a new pod."""
        self._seen.setdefault(uid, now)
        while len(self._seen) > _WATCHED:
            self._seen.popitem(last=False)

    def gone(self, uid: str) -> None:
        """Note that the pod was deleted."""
        self._seen.pop(uid, None)

    def started(self, uid: str, now: float) -> float | None:
        """Its worker was heard at `now`: return how long it took, once."""
        seen = self._seen.pop(uid, None)
        if seen is None:
            return None
        took = max(0.0, now - seen)
        return took if took <= _LONGEST_SECONDS else None


class StartupTimes:
    """The last start-up times of one pool."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=_SAMPLES)

    def add(self, seconds: float) -> None:
        """Take one more."""
        self._samples.append(seconds)

    @property
    def seconds(self) -> float:
        """Their median; the default until one is known."""
        return statistics.median(self._samples) if self._samples else DEFAULT_STARTUP_SECONDS
