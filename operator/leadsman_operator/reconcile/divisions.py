"""One division of the work per sample: pools that share queues decide from the same one.

A push that concerns a queue of two hundred pools makes two hundred looks. Each needs only its own part, and the
parts fit together only if they come from one division.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from leadsman_operator.kube.cache import Key
from leadsman_operator.scaling import Shares

LASTS_SECONDS = 1.0
"""Ages and the liveness of workers move on without news: a division is not used for longer than this."""


@dataclass(frozen=True, slots=True)
class _Division:
    stamp: Hashable
    at: float
    shares: Shares


class Divisions:
    """The last division of each group of pools, the newest last."""

    def __init__(self) -> None:
        self._known: dict[tuple[Key, ...], _Division] = {}

    def of(self, group: tuple[Key, ...], stamp: Hashable, now: float, divide: Callable[[], Shares]) -> Shares:
        """Return the group's division, made anew when `stamp` (all that it depends on) or the time says so."""
        known = self._known.get(group)
        if known is not None and known.stamp == stamp and now - known.at < LASTS_SECONDS:
            return known.shares
        shares = divide()
        self._known.pop(group, None)
        self._drop_old(now)
        self._known[group] = _Division(stamp, now, shares)
        return shares

    def forget(self, key: Key) -> None:
        """Drop the divisions of groups that a pool is in which no longer exists."""
        self._known = {group: division for group, division in self._known.items() if key not in group}

    def _drop_old(self, now: float) -> None:
        while self._known:
            group = next(iter(self._known))
            if now - self._known[group].at < LASTS_SECONDS:
                return
            del self._known[group]
