"""Schedules: other bounds for a fleet at some hours of some days."""

from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ConfigDict, Field, field_validator

from leadsman_operator.api.base import INT32, MAX_REPLICAS, ApiModel, rules

START_OF_DAY = "00:00"
END_OF_DAY = "24:00"

_FROM = {"pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}
_TO = {"pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"}


class Day(StrEnum):
    """A day of the week, Monday first."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


class Schedule(ApiModel):
    """Other bounds at some hours of some days."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.min) || has(self.max)", "give min, max or both"),
            ("!has(self.min) || !has(self.max) || self.min <= self.max", "min may not be above max"),
            ("self.from != self.to", "from and to are the same time: leave both out for the whole day"),
        )
    )

    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")] = "UTC"
    """IANA name of the time zone that the hours are in, for example Europe/Zurich. A change to or from
    daylight-saving time moves the hours with the clocks on the wall."""
    days: (
        Annotated[
            tuple[Day, ...],
            Field(min_length=1, max_length=7, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Days on which it begins. Default: every day."""
    starts: Annotated[str, Field(alias="from", max_length=5, **_FROM)] = START_OF_DAY
    """When it begins, HH:MM."""
    ends: Annotated[str, Field(alias="to", max_length=5, **_TO)] = END_OF_DAY
    """When it ends, HH:MM; not later than `from`: on the next day."""
    min: Annotated[int, Field(ge=0, le=MAX_REPLICAS, json_schema_extra=INT32)] | None = None
    """Floor: workers that are kept even when nothing waits, if that is more than minReplicas. Of several at once
    the greatest counts."""
    max: Annotated[int, Field(ge=0, le=MAX_REPLICAS, json_schema_extra=INT32)] | None = None
    """Ceiling: workers there may be, at most maxReplicas. Of several at once the greatest counts, and a floor beats
    a ceiling."""

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"there is no time zone {name!r}; use a name like Europe/Zurich") from error
        return name

    def __str__(self) -> str:
        days = "daily" if self.days is None else _span(self.days)
        hours = "" if (self.starts, self.ends) == (START_OF_DAY, END_OF_DAY) else f" {self.starts}-{self.ends}"
        return f"{days}{hours} {self.time_zone}"


def _span(days: tuple[Day, ...]) -> str:
    week = list(Day)
    numbers = sorted({week.index(day) for day in days})
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{week[numbers[0]].value}-{week[numbers[-1]].value}"
    return ",".join(week[number].value for number in numbers)
