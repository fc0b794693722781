"""`leadsman simulate`: one scenario, several side by side, or one with many settings."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from leadsman.cli.output import console, print_json, say, table
from leadsman.errors import ConfigurationError
from leadsman_local.simulator import compare as comparing
from leadsman_local.simulator import plots, report, ticks
from leadsman_local.simulator.scenario import Plan, load
from leadsman_local.simulator.world import World
from leadsman_local.simulator.world import simulate as play

_PERCENTILES = ("p50", "p95", "p99", "p100")


def run(
    paths: Sequence[Path],
    *,
    compare: bool,
    sweep: Sequence[str],
    age_target: float | None,
    percentile: str,
    seed: int | None,
    plot: Path | None,
    curves: bool,
    json_output: bool,
) -> int:
    """Do what the command line asks; return the exit code."""
    if len(paths) > 1 and not compare:
        raise ConfigurationError("give one scenario, or several with --compare")
    if sweep and compare:
        raise ConfigurationError("--sweep and --compare do not go together")
    if percentile not in _PERCENTILES:
        raise ConfigurationError(f"--percentile is one of {', '.join(_PERCENTILES)}, not {percentile!r}")
    plans = [_seeded(load(path), seed) for path in paths]
    if sweep:
        return _sweep(plans[0], sweep, age_target, percentile, json_output=json_output)
    if compare:
        return _compare(plans, [path.stem for path in paths], plot, json_output=json_output)
    return _one(plans[0], plot, curves=curves, json_output=json_output)


def _one(plan: Plan, plot: Path | None, *, curves: bool, json_output: bool) -> int:
    if plan.scenario.ticks is not None:
        lines = ticks.play(plan)
        if json_output:
            print_json({"lines": lines})
        else:
            for line in lines:
                print(line)
        return 0
    world = _played(plan)
    found = report.summary(world)
    if json_output:
        found["moves"] = report.moves(world)
        if curves:
            found["curves"] = report.curves(world.recorder.points)
        print_json(found)
    else:
        for line in report.text(found):
            print(line)
    _draw([world], plot)
    return 0


def _compare(plans: Sequence[Plan], names: Sequence[str], plot: Path | None, *, json_output: bool) -> int:
    if any(plan.scenario.ticks is not None for plan in plans):
        raise ConfigurationError("a script in ticks cannot be compared; it has no curves")
    worlds = [_played(plan) for plan in plans]
    found = [report.summary(world) for world in worlds]
    if json_output:
        print_json(dict(zip(names, found, strict=True)))
    else:
        header, *rows = comparing.table(found, names)
        console().print(table(header, rows, right=header[1:]))
    _draw(worlds, plot)
    return 0


def _sweep(
    plan: Plan, texts: Sequence[str], age_target: float | None, percentile: str, *, json_output: bool
) -> int:
    combinations = comparing.settings(texts)
    with _bar("sweep", len(combinations)) as done:
        results = list(comparing.sweep(plan, combinations, lambda: done(None)))
    best = None if age_target is None else comparing.cheapest(results, age_target, percentile)
    if json_output:
        print_json(
            {
                "results": [{"settings": dict(values), **found} for values, found in results],
                "cheapest": None if best is None else dict(best[0]),
            }
        )
    else:
        columns = [*combinations[0], f"oldest age {percentile} (s)", "worker-hours", "completed", "refused"]
        console().print(table(columns, [_row(values, found, percentile) for values, found in results]))
        if age_target is not None:
            print(_verdict(best, age_target, percentile))
    return 0 if age_target is None or best is not None else 1


def _row(values: Mapping[str, Any], found: dict[str, Any], percentile: str) -> list[str]:
    tasks, workers = found["tasks"], found["workers"]
    age = found["oldest_age_seconds"][percentile]
    figures = (f"{age:g}", f"{workers['worker_hours']:g}", str(tasks["completed"]), str(tasks["refused"]))
    return [*(str(value) for value in values.values()), *figures]


def _verdict(best: tuple[Mapping[str, Any], dict[str, Any]] | None, target: float, percentile: str) -> str:
    if best is None:
        return f"no setting keeps the oldest task's {percentile} within {target:g} s"
    values, found = best
    said = ", ".join(f"{path}={value}" for path, value in values.items())
    hours = found["workers"]["worker_hours"]
    return f"cheapest within {target:g} s ({percentile}): {said}, {hours:g} worker-hours"


def _played(plan: Plan) -> World:
    seconds = plan.scenario.duration_seconds
    with _bar(plan.scenario.name or "simulating", seconds) as done:
        return play(plan, done)


def _draw(worlds: Sequence[World], plot: Path | None) -> None:
    if plot is not None:
        plots.draw(worlds, plot)
        say(f"drawn: {plot}")


def _seeded(plan: Plan, seed: int | None) -> Plan:
    return plan if seed is None else plan.with_values({"seed": seed})


@contextmanager
def _bar(title: str, total: float) -> Iterator[Callable[[float | None], None]]:
    """Show a progress bar on a terminal; the function takes how far it is, None for one step more."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)

        def done(reached: float | None) -> None:
            if reached is None:
                progress.advance(task)
            else:
                progress.update(task, completed=reached)

        yield done
