"""Which bounds hold at a moment: the schedules of a pool, read on the clocks of their time zones.

A schedule holds from the moment the wall clock first shows `from` until it last shows `to`. Where clocks are put
back, an hour that comes twice belongs to it as a whole; where they are put forward, a time that does not come is
the moment of the change.
"""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from leadsman_operator.api.schedule import Day, Schedule
from leadsman_operator.scaling.model import PoolSpec

_WEEK = list(Day)
_SECOND = dt.timedelta(seconds=1)
LOOK_AGAIN_SECONDS = 43_200.0
"""When no schedule begins or ends sooner. Windows are known until tomorrow is over, and a day may have 23 hours."""


@dataclass(frozen=True, slots=True)
class Window:
    """One time that a schedule holds: from `start` on, before `end`; both in UTC."""

    start: dt.datetime
    end: dt.datetime


def windows(schedule: Schedule, now: dt.datetime) -> Iterator[Window]:
    """Give the schedule's windows around `now` (aware), from the one that began yesterday to tomorrow's."""
    zone = ZoneInfo(schedule.time_zone)
    today = now.astimezone(zone).date()
    for ahead in (-1, 0, 1):
        day = today + dt.timedelta(days=ahead)
        if schedule.days is not None and _WEEK[day.weekday()] not in schedule.days:
            continue
        over_midnight = schedule.ends <= schedule.starts  # both are HH:MM
        start = _instant(day, schedule.starts, zone, last=False)
        end = _instant(day + dt.timedelta(days=int(over_midnight)), schedule.ends, zone, last=True)
        if start < end:
            yield Window(start, end)


def spec_at(spec: PoolSpec, schedules: Iterable[Schedule], now: dt.datetime) -> tuple[PoolSpec, float | None]:
    """Give the spec with the bounds that hold at `now`, and in how many seconds they may be others.

    Of several schedules at once the greatest floor and the greatest ceiling count; a floor beats a ceiling, and
    neither is above maxReplicas. None: there are no schedules.
    """
    holding: list[Schedule] = []
    changes: list[dt.datetime] = []
    any_at_all = False
    for schedule in schedules:
        any_at_all = True
        for window in windows(schedule, now):
            changes += [moment for moment in (window.start, window.end) if moment > now]
            if window.start <= now < window.end:
                holding.append(schedule)
    if not any_at_all:
        return spec, None
    again = min([LOOK_AGAIN_SECONDS, *((moment - now).total_seconds() for moment in changes)])
    return _bounded(spec, holding), again


def _bounded(spec: PoolSpec, holding: list[Schedule]) -> PoolSpec:
    low, low_by = spec.min_replicas, ""
    for schedule in holding:
        if schedule.min is not None and schedule.min > low:
            low, low_by = schedule.min, str(schedule)
    low = min(low, spec.max_replicas)
    high, high_by = spec.max_replicas, ""
    ceilings = [(schedule.max, str(schedule)) for schedule in holding if schedule.max is not None]
    if ceilings:
        ceiling, by = max(ceilings)
        if max(ceiling, low) < high:
            high, high_by = max(ceiling, low), by
    return dataclasses.replace(spec, min_replicas=low, max_replicas=high, min_schedule=low_by, max_schedule=high_by)


def _instant(day: dt.date, time: str, zone: ZoneInfo, *, last: bool) -> dt.datetime:
    """Give when the clocks of `zone` show `time` on `day`: of two such moments the first or the last."""
    hours, minutes = (int(part) for part in time.split(":"))
    wall = dt.datetime.combine(day, dt.time()) + dt.timedelta(hours=hours, minutes=minutes)
    once = wall.replace(tzinfo=zone, fold=0).astimezone(dt.UTC)
    again = wall.replace(tzinfo=zone, fold=1).astimezone(dt.UTC)
    if once <= again:
        return again if last else once
    return _change(again, once, zone)


def _change(before: dt.datetime, after: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """Give the moment at which the clocks are put forward, which lies after `before` and not after `after`."""
    new = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) / 2
        if middle.astimezone(zone).utcoffset() == new:
            after = middle
        else:
            before = middle
    return after.replace(microsecond=0)
