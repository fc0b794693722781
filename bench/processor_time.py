"""How much of a core a process uses over a while, and in the worst part of it."""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_EVERY_SECONDS = 1.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """The processor time that a process had used at a moment, both in seconds."""

    at: float
    seconds: float


def used(pid: int) -> Used:
    """Read it now; threads that have ended count too."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return Used(time.monotonic(), (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND)


async def watched(pid: int, seconds: float) -> list[Used]:
    """Read it every second for so long."""
    found = [used(pid)]
    while found[-1].at - found[0].at < seconds:
        await asyncio.sleep(_EVERY_SECONDS)
        found.append(used(pid))
    return found


def percent(readings: Sequence[Used]) -> float:
    """Return the share of a core over all of it."""
    first, last = readings[0], readings[-1]
    return 100 * (last.seconds - first.seconds) / (last.at - first.at)


def worst_percent(readings: Sequence[Used], window_seconds: float) -> float:
    """Return the share of a core in that window (or a second longer) of it in which it was greatest."""
    worst, begin = 0.0, 0
    for end, reading in enumerate(readings):
        while begin + 1 < end and reading.at - readings[begin + 1].at >= window_seconds:
            begin += 1
        if reading.at - readings[begin].at >= window_seconds:
            worst = max(worst, percent(readings[begin : end + 1]))
    return worst or percent(readings)
