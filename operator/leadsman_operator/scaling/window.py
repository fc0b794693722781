"""The idle window: the greatest number of slots that was wanted at any moment of the last `idleSeconds`.

Demand is a step function: what the last decision found holds until this one. Only the values that can still become
the greatest are kept, falling towards the newest; those that ended within the same 64th of the window are merged
upwards, so that the memory stays small however often the demand changes.
"""

from leadsman_operator.scaling.model import Demand

_PARTS = 64


def remember(window: tuple[Demand, ...], slots: int, now: float, idle_seconds: float) -> tuple[Demand, ...]:
    """Add what is wanted now, and drop what ended at least `idle_seconds` ago."""
    kept = list(window)
    if kept:
        kept[-1] = Demand(now, kept[-1].slots)
    while kept and kept[-1].slots <= slots:
        kept.pop()
    kept = _merge([each for each in kept if now - each.at < idle_seconds], idle_seconds / _PARTS)
    return (*kept, Demand(now, slots))


def highest(window: tuple[Demand, ...]) -> int:
    """Give the greatest demand of the window; 0 when nothing is remembered."""
    return window[0].slots if window else 0


def _merge(demands: list[Demand], width: float) -> list[Demand]:
    """Keep one for each part of time: the greater number, the later end."""
    merged: list[Demand] = []
    for each in demands:
        if merged and each.at // width == merged[-1].at // width:
            merged[-1] = Demand(each.at, merged[-1].slots)
        else:
            merged.append(each)
    return merged
