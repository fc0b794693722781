"""Schedules on the clocks of their time zones, over both changes of daylight-saving time."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from leadsman_operator.api.schedule import Day, Schedule
from leadsman_operator.reconcile.pools import PoolIndex
from leadsman_operator.reconcile.schedules import spec_at, windows
from scaling_cases import pool

ZURICH = "Europe/Zurich"
FORWARD = dt.date(2026, 3, 29)
"""02:00 becomes 03:00."""
BACK = dt.date(2026, 10, 25)
"""03:00 becomes 02:00."""


def schedule(**fields):
    return Schedule.model_validate({"timeZone": ZURICH, "min": 5, **fields})


def utc(text):
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def holds(one, moment):
    return any(window.start <= moment < window.end for window in windows(one, moment))


def bounds(moment, *schedules, **spec):
    found, _ = spec_at(pool(**spec), schedules, moment)
    return found.min_replicas, found.max_replicas


def of_day(one, day):
    """The window that begins on this day, as UTC hours and minutes."""
    noon = dt.datetime.combine(day, dt.time(12), ZoneInfo(ZURICH))
    found = [w for w in windows(one, noon) if w.start.astimezone(ZoneInfo(ZURICH)).date() == day]
    return [(f"{w.start:%H:%M}", f"{w.end:%H:%M}") for w in found]


@pytest.mark.parametrize(
    ("day", "start", "end", "window"),
    [
        # An ordinary winter and summer day, an hour and two before UTC.
        (dt.date(2026, 1, 20), "08:00", "18:00", [("07:00", "17:00")]),
        (dt.date(2026, 7, 20), "08:00", "18:00", [("06:00", "16:00")]),
        # Put forward: the change lies within, at the start, at the end, and around all of it.
        (FORWARD, "01:00", "05:00", [("00:00", "03:00")]),
        (FORWARD, "02:30", "05:00", [("01:00", "03:00")]),
        (FORWARD, "01:00", "02:30", [("00:00", "01:00")]),
        (FORWARD, "02:15", "02:45", []),
        (FORWARD, "02:00", "03:00", []),
        # Put back: the hour from two to three comes twice and belongs to the schedule as a whole.
        (BACK, "01:00", "05:00", [("23:00", "04:00")]),
        (BACK, "02:30", "05:00", [("00:30", "04:00")]),
        (BACK, "01:00", "02:30", [("23:00", "01:30")]),
        (BACK, "02:15", "02:45", [("00:15", "01:45")]),
        # Over midnight, into each of the changes.
        (FORWARD - dt.timedelta(days=1), "22:00", "06:00", [("21:00", "04:00")]),
        (BACK - dt.timedelta(days=1), "22:00", "06:00", [("20:00", "05:00")]),
        # The whole day, of 23 and of 25 hours.
        (FORWARD, "00:00", "24:00", [("23:00", "22:00")]),
        (BACK, "00:00", "24:00", [("22:00", "23:00")]),
    ],
)
def test_a_window_in_utc(day, start, end, window):
    assert of_day(schedule(**{"from": start, "to": end}), day) == window


def test_days_are_those_on_which_it_begins():
    night = schedule(days=["Fri"], **{"from": "22:00", "to": "06:00"})

    assert holds(night, utc("2026-01-24T04:30"))  # Saturday, 05:30
    assert not holds(night, utc("2026-01-23T04:30"))  # Friday, 05:30
    assert holds(night, utc("2026-01-23T21:30"))


def test_of_several_at_once_the_greatest_floor_and_ceiling_count():
    moment = utc("2026-01-20T12:00")

    assert bounds(moment, schedule(min=3), schedule(min=7)) == (7, 20)
    assert bounds(moment, schedule(min=None, max=4), schedule(min=None, max=9)) == (0, 9)


def test_min_replicas_stay_a_floor_and_max_replicas_a_ceiling():
    moment = utc("2026-01-20T12:00")

    assert bounds(moment, schedule(min=3), min_replicas=6) == (6, 20)
    assert bounds(moment, schedule(min=30, max=40)) == (20, 20)


def test_a_floor_beats_a_ceiling():
    moment = utc("2026-01-20T12:00")

    assert bounds(moment, schedule(min=8), schedule(min=None, max=2)) == (8, 8)
    assert bounds(moment, schedule(min=None, max=2), min_replicas=4) == (4, 4)


def test_outside_its_hours_a_schedule_changes_nothing():
    found, again = spec_at(pool(), [schedule(**{"from": "08:00", "to": "18:00"})], utc("2026-01-20T06:59:30"))

    assert found == pool()
    assert again == 30


def test_the_bound_says_which_schedule_it_comes_from():
    weekdays = schedule(days=["Mon", "Tue", "Wed", "Thu", "Fri"], max=9, **{"from": "08:00", "to": "18:00"})
    found, again = spec_at(pool(), [weekdays], utc("2026-01-20T12:00"))

    assert found.floor == "minReplicas is 5 by schedule Mon-Fri 08:00-18:00 Europe/Zurich"
    assert found.ceiling == "maxReplicas is 9 by schedule Mon-Fri 08:00-18:00 Europe/Zurich"
    assert again == 5 * 3600


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "daily Europe/Zurich"),
        ({"days": ["Sun", "Sat"]}, "Sat,Sun Europe/Zurich"),
        ({"days": ["Wed", "Mon", "Tue"], "from": "08:00"}, "Mon-Wed 08:00-24:00 Europe/Zurich"),
        ({"days": ["Mon", "Wed"], "to": "06:30", "timeZone": "UTC"}, "Mon,Wed 00:00-06:30 UTC"),
    ],
)
def test_a_schedule_in_words(fields, text):
    assert str(schedule(**fields)) == text


@pytest.mark.parametrize("name", ["Europe/Zuerich", "../etc/passwd", "Europe", "/UTC"])
def test_an_unknown_time_zone_is_refused_with_its_name(name):
    with pytest.raises(ValidationError, match="timeZone"):
        schedule(timeZone=name)


def test_a_pool_with_an_unknown_time_zone_says_which_field_is_wrong():
    index = PoolIndex()
    spec = {"maxReplicas": 3, "image": "any", "scaling": {"schedules": [{"timeZone": "Mars/Base", "min": 1}]}}
    index.put({"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": spec})

    assert index.get(("ns", "p")) is None
    assert "spec.scaling.schedules.0.timeZone" in index.problem(("ns", "p"))


def test_a_pool_has_its_bounds_by_the_clock():
    index = PoolIndex()
    spec = {
        "maxReplicas": 3,
        "image": "any",
        "scaling": {"schedules": [{"min": 2, "from": "08:00", "to": "09:00"}]},
    }
    index.put({"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": spec})
    found = index.get(("ns", "p"))

    assert found.at(utc("2026-01-20T08:00"))[0].spec.min_replicas == 2
    assert found.at(utc("2026-01-20T09:00"))[0].spec.min_replicas == 0
    assert found.spec.min_replicas == 0


moments = st.integers(0, 10 * 366 * 86_400).map(
    lambda second: utc("2020-01-01T00:00") + dt.timedelta(seconds=second)
)
times = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.integers(0, 59))


@given(
    start=times,
    end=times,
    days=st.none() | st.sets(st.sampled_from(list(Day)), min_size=1),
    zone=st.sampled_from([ZURICH, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"]),
    moment=moments,
)
def test_what_the_wall_shows_within_its_hours_is_within_the_schedule(start, end, days, zone, moment):
    """It never misses a moment that its hours name; it holds longer only in an hour that comes twice."""
    one = schedule(timeZone=zone, days=days and sorted(days), **{"from": start, "to": end})
    wall = moment.astimezone(ZoneInfo(zone))
    shown = f"{wall:%H:%M}"
    within = start <= shown < end if start < end else (shown >= start or shown < end)
    began = wall.date() if start < end or shown >= start else wall.date() - dt.timedelta(days=1)
    if days is not None:
        within = within and list(Day)[began.weekday()] in days

    if within:
        assert holds(one, moment)
    elif len({(wall + dt.timedelta(hours=hours)).utcoffset() for hours in (-26, 0, 26)}) == 1:
        assert not holds(one, moment)


@given(
    start=times,
    end=times,
    moment=moments,
)
def test_nothing_changes_before_the_time_to_look_again(start, end, moment):
    one = schedule(**{"from": start, "to": end})
    now, again = spec_at(pool(), [one], moment)
    assert again > 0

    just_before = moment + dt.timedelta(seconds=again - 0.001)
    assert spec_at(pool(), [one], just_before)[0] == now


def test_one_that_begins_after_a_day_of_23_hours_is_not_missed():
    one = schedule(days=["Mon"], **{"from": "00:00", "to": "01:00"})
    moment = utc("2026-03-28T22:50:00")
    now, again = spec_at(pool(), [one], moment)

    assert spec_at(pool(), [one], moment + dt.timedelta(seconds=again - 0.001))[0] == now
