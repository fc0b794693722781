"""Several scenarios, or one with several settings, side by side."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from leadsman.errors import ConfigurationError
from leadsman_local.simulator.report import summary
from leadsman_local.simulator.scenario import Plan
from leadsman_local.simulator.world import simulate

MAX_COMBINATIONS = 1_000

ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("completed tasks", ("tasks", "completed")),
    ("unfinished tasks", ("tasks", "unfinished")),
    ("refused tasks", ("tasks", "refused")),
    ("dead tasks", ("tasks", "dead")),
    ("mean wait (s)", ("wait_seconds", "mean")),
    ("wait p95 (s)", ("wait_seconds", "p95")),
    ("oldest age p50 (s)", ("oldest_age_seconds", "p50")),
    ("oldest age p95 (s)", ("oldest_age_seconds", "p95")),
    ("oldest age p99 (s)", ("oldest_age_seconds", "p99")),
    ("oldest age max (s)", ("oldest_age_seconds", "p100")),
    ("peak replicas", ("workers", "peak_replicas")),
    ("worker-hours", ("workers", "worker_hours")),
    ("scale-outs", ("workers", "scale_outs")),
    ("scale-ins", ("workers", "scale_ins")),
    ("busy workers told to end", ("workers", "busy_told_to_end")),
    ("killed with work in hand", ("workers", "busy_killed")),
    ("share done in vain", ("cost", "wasted_share")),
    ("cost per completed (micros)", ("cost", "cost_micros_per_completed")),
)


def table(found: Sequence[dict[str, Any]], names: Sequence[str]) -> list[list[str]]:
    """Return the rows of a comparison, the header first."""
    rows = [["", *names]]
    for title, path in ROWS:
        rows.append([title, *(_shown(_value(each, path)) for each in found)])
    return rows


def settings(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return every combination of `path=value,value` settings. Raises ConfigurationError."""
    choices: list[list[tuple[str, Any]]] = []
    for text in texts:
        path, separator, values = text.partition("=")
        if not separator or not path or not values:
            raise ConfigurationError(f"{text!r} is no sweep; say for example pools.browser.maxReplicas=5,10,20")
        choices.append([(path, yaml.safe_load(value)) for value in values.split(",")])
    found = [dict(combination) for combination in itertools.product(*choices)]
    if len(found) > MAX_COMBINATIONS:
        raise ConfigurationError(f"{len(found)} combinations are too many; {MAX_COMBINATIONS} at most")
    return found


def sweep(
    plan: Plan, combinations: Sequence[Mapping[str, Any]], done: Callable[[], None]
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Play a scenario with each combination of settings; `done` is called after each."""
    for values in combinations:
        yield values, summary(simulate(plan.with_values(dict(values))))
        done()


def cheapest(
    results: Sequence[tuple[Mapping[str, Any], dict[str, Any]]], age_target_seconds: float, percentile: str
) -> tuple[Mapping[str, Any], dict[str, Any]] | None:
    """Return the result with the fewest worker-hours of those whose oldest age meets the target."""
    fit = [
        (values, found)
        for values, found in results
        if (found["oldest_age_seconds"][percentile] or 0.0) <= age_target_seconds
    ]
    return min(fit, key=lambda each: each[1]["workers"]["worker_hours"], default=None)


def _value(found: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = found
    for part in path:
        value = value[part]
    return value


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
