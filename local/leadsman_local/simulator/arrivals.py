"""When tasks come, and whose they are."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Annotated, Self

from pydantic import Field, model_validator

from leadsman.errors import ConfigurationError
from leadsman.wire.tasks import TaskClass
from leadsman_local.simulator.base import ScenarioModel
from leadsman_local.simulator.distributions import NotNegative, Positive

_DAY_SECONDS = 86_400.0


class Poisson(ScenarioModel):
    """Independent arrivals."""

    per_minute: Positive


class Every(ScenarioModel):
    """One after the other at the same distance."""

    seconds: Positive
    tasks: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How many at a time."""


class Bursts(ScenarioModel):
    """Many in a short time, again and again."""

    tasks: Annotated[int, Field(ge=1, le=1_000_000)]
    every_seconds: Positive
    within_seconds: NotNegative = 1.0
    """A burst's tasks come at random moments of this time."""


class Diurnal(ScenarioModel):
    """Independent arrivals whose rate follows the hour of the day."""

    mean_per_minute: Positive
    swing: Annotated[float, Field(ge=0, le=1)] = 0.8
    """How far the rate rises above its mean at the peak and falls below it at night: 0.8 is 1.8 and 0.2 times."""
    peak_hour: Annotated[float, Field(ge=0, lt=24)] = 14.0


class RunOf(ScenarioModel):
    """Tasks that belong together, and what all of them together may use."""

    tasks: Annotated[int, Field(ge=1, le=1_000_000)]
    """So many that come one after the other are one run."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_cost_micros: Annotated[int, Field(ge=1)] | None = None
    max_seconds: Positive | None = None
    max_tasks: Annotated[int, Field(ge=1)] | None = None


class OnRefusal(StrEnum):
    """What a producer does when a queue is full."""

    DROP = "Drop"
    RETRY = "Retry"


class Arrival(ScenarioModel):
    """One stream of tasks. Give exactly one of poisson, every, bursts, diurnal and trace."""

    capability: str | None = None
    """Needed unless a trace names it."""
    poisson: Poisson | None = None
    every: Every | None = None
    bursts: Bursts | None = None
    diurnal: Diurnal | None = None
    trace: str | None = None
    """A file that `leadsman export-trace` wrote, beside the scenario."""
    from_seconds: NotNegative = 0.0
    until_seconds: NotNegative | None = None
    tenants: dict[str, Positive] = {}
    """Tenant -> weight; each task is some tenant's, by chance. Empty: nobody's."""
    task_class: Annotated[TaskClass, Field(alias="class")] = TaskClass.BACKGROUND
    priority: Annotated[int, Field(ge=0, le=9)] | None = None
    on_refusal: OnRefusal = OnRefusal.DROP
    run: RunOf | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        kinds = ("poisson", "every", "bursts", "diurnal", "trace")
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"give exactly one of {', '.join(kinds)}")
        if self.capability is None and self.trace is None:
            raise ValueError("say which capability the tasks are for")
        return self


@dataclass(frozen=True, slots=True)
class Coming:
    """Some equal tasks that come at one moment."""

    at: float
    capability: str
    count: int = 1
    tenant: str = ""
    task_class: TaskClass = TaskClass.BACKGROUND
    priority: int | None = None
    seconds: float | None = None
    """How long an attempt takes, where a trace says so."""


def arrivals(arrival: Arrival, rng: Random, until: float, folder: Path) -> Iterator[Coming]:
    """Yield what a stream brings, in order of time."""
    until = until if arrival.until_seconds is None else min(until, arrival.until_seconds)
    if arrival.trace is not None:
        yield from _traced(arrival, folder / arrival.trace, until)
        return
    tenants, weights = list(arrival.tenants), list(arrival.tenants.values())
    for at, count in _times(arrival, rng):
        if at >= until:
            return
        if not tenants:
            yield _coming(arrival, at, count, "")
            continue
        for tenant in rng.choices(tenants, weights, k=count):
            yield _coming(arrival, at, 1, tenant)


def _coming(arrival: Arrival, at: float, count: int, tenant: str) -> Coming:
    assert arrival.capability is not None  # noqa: S101 - the model demands it without a trace
    return Coming(at, arrival.capability, count, tenant, arrival.task_class, arrival.priority)


def _times(arrival: Arrival, rng: Random) -> Iterator[tuple[float, int]]:
    start = arrival.from_seconds
    if arrival.poisson is not None:
        return _poisson(arrival.poisson.per_minute / 60.0, start, rng)
    if arrival.every is not None:
        return _steady(arrival.every, start)
    if arrival.bursts is not None:
        return _bursts(arrival.bursts, start, rng)
    assert arrival.diurnal is not None  # noqa: S101 - the model demands one of them
    return _diurnal(arrival.diurnal, start, rng)


def _poisson(per_second: float, start: float, rng: Random) -> Iterator[tuple[float, int]]:
    at = start
    while True:
        at += rng.expovariate(per_second)
        yield at, 1


def _steady(every: Every, start: float) -> Iterator[tuple[float, int]]:
    number = 0
    while True:
        yield start + number * every.seconds, every.tasks
        number += 1


def _bursts(bursts: Bursts, start: float, rng: Random) -> Iterator[tuple[float, int]]:
    number = 0
    while True:
        begin = start + number * bursts.every_seconds
        if bursts.within_seconds:
            for at in sorted(begin + rng.random() * bursts.within_seconds for _ in range(bursts.tasks)):
                yield at, 1
        else:
            yield begin, bursts.tasks
        number += 1


def _diurnal(diurnal: Diurnal, start: float, rng: Random) -> Iterator[tuple[float, int]]:
    """Thin a faster stream: each of its arrivals stays with the rate's share of the peak rate."""
    mean = diurnal.mean_per_minute / 60.0
    peak = mean * (1 + diurnal.swing)
    at = start
    while True:
        at += rng.expovariate(peak)
        phase = 2 * math.pi * (at - diurnal.peak_hour * 3600) / _DAY_SECONDS
        if rng.random() * peak < mean * (1 + diurnal.swing * math.cos(phase)):
            yield at, 1


def _traced(arrival: Arrival, path: Path, until: float) -> Iterator[Coming]:
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                coming = _recorded(arrival, line, f"{path}:{number}")
                if coming.at >= until:
                    return
                yield coming
    except OSError as error:
        raise ConfigurationError(f"cannot read the trace {path}: {error.strerror}") from error


def _recorded(arrival: Arrival, line: str, where: str) -> Coming:
    try:
        raw = json.loads(line)
        return Coming(
            at=arrival.from_seconds + float(raw["at"]),
            capability=arrival.capability or str(raw["capability"]),
            tenant=str(raw.get("tenant", "")),
            task_class=TaskClass(raw.get("class", "background")),
            priority=None if raw.get("priority") is None else int(raw["priority"]),
            seconds=None if raw.get("seconds") is None else float(raw["seconds"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{where}: this is no line of a trace: {error!r}") from error
