"""What a simulation found: numbers for a program, the same as text for a person."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from leadsman_local.simulator.recorder import Point
from leadsman_local.simulator.world import World

_PERCENTILES = (50, 95, 99, 100)


def summary(world: World) -> dict[str, Any]:
    """Return every figure of a simulation as JSON can hold it. Durations are seconds, money micro-units."""
    recorder, scenario = world.recorder, world.scenario
    points = recorder.points
    totals = [world.broker.totals(name) for name in world.capability_names]
    waits = sorted(wait for each in recorder.waits.values() for wait in each)
    completed = sum(each.completed for each in totals)
    busy = recorder.busy_seconds
    peak = max((point.replicas for point in points), default=0)
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "scaler": scenario.scaler.by.value,
        "seconds": scenario.duration_seconds,
        "events": world.agenda.events,
        "tasks": {
            "submitted": recorder.submitted,
            "accepted": sum(each.accepted for each in totals),
            "refused": recorder.refused,
            "completed": completed,
            "failed_attempts": sum(each.failed for each in totals),
            "reclaimed": sum(each.reclaimed for each in totals),
            "dead": sum(each.dead for each in totals),
            "unfinished": sum(
                stats.ready + stats.delayed + stats.leased
                for stats in (world.broker.stats(name) for name in world.capability_names)
            ),
        },
        "wait_seconds": {"mean": _mean(waits), **_percentiles(waits)},
        "oldest_age_seconds": _percentiles(sorted(point.oldest_age for point in points)),
        "depth": _percentiles(sorted(float(point.depth) for point in points)),
        "workers": {
            "peak_replicas": max([peak, *(move.after for move in recorder.moves)], default=0)
            if len(world.pools) == 1
            else peak,
            "mean_replicas": _round(_mean([float(point.replicas) for point in points])),
            "worker_seconds": _round(recorder.pod_seconds),
            "worker_hours": _round(recorder.pod_seconds / 3600),
            "busy_seconds": _round(busy),
            "scale_outs": sum(move.after > move.before for move in recorder.moves),
            "scale_ins": sum(move.after < move.before for move in recorder.moves),
            "crashes": recorder.crashes,
            "busy_told_to_end": recorder.evicted_busy,
            "busy_killed": recorder.killed_busy,
            "wrong_victims": recorder.wrong_victims,
        },
        "cost": {
            "tokens": round(recorder.tokens),
            "cost_micros": round(recorder.cost_micros),
            "cost_micros_per_completed": _round(recorder.cost_micros / completed) if completed else None,
            "wasted_share": _round(recorder.wasted_seconds / busy, 4) if busy else 0.0,
        },
        "runs": {
            state.value: count for state, count in sorted(Counter(world.broker.runs.values()).items()) if count
        },
        "blocked": {
            reason: {
                "peak": max(point.blocked.get(reason, 0) for point in points),
                "share_of_time": _round(sum(reason in point.blocked for point in points) / len(points), 4),
            }
            for reason in sorted({reason for point in points for reason in point.blocked})
        },
        "providers": {
            name: {"refused_429": provider.refused, "failed": provider.failed}
            for name, provider in world.providers.items()
        },
        "tenants": {
            tenant: {
                "completed": recorder.tenant_completed.get(tenant, 0),
                "wait_seconds": {"mean": _mean(found), **_percentiles(sorted(found))},
                "peak_in_flight": max((point.tenants.get(tenant, 0) for point in points), default=0),
            }
            for tenant, found in sorted(recorder.tenant_waits.items())
        },
    }


def curves(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the curves point by point."""
    return [
        {
            "at": _round(point.at), "depth": point.depth, "delayed": point.delayed,
            "oldest_age_seconds": _round(point.oldest_age), "replicas": point.replicas, "ready": point.ready,
            "busy": point.busy, "leased": point.leased, "refused": point.refused,
            "cost_micros": round(point.cost_micros), "tenants": point.tenants, "blocked": point.blocked,
        }
        for point in points
    ]  # fmt: skip


def moves(world: World) -> list[dict[str, Any]]:
    """Return every change of a fleet's size with its reason."""
    return [
        {
            "at": _round(move.at), "pool": move.pool, "before": move.before, "after": move.after,
            "reason": move.reason, "summary": move.summary,
        }
        for move in world.recorder.moves
    ]  # fmt: skip


def text(found: dict[str, Any]) -> list[str]:
    """Return the summary as lines for a person."""
    tasks, workers, cost = found["tasks"], found["workers"], found["cost"]
    head = f"{found['name'] or 'scenario'}: {_span(found['seconds'])} simulated, sized by {found['scaler']}"
    lines = [f"{head}, seed {found['seed']}, {found['events']} events"]
    counted = ("accepted", "completed", "unfinished", "dead", "refused", "failed_attempts", "reclaimed")
    lines.append("tasks     " + ", ".join(f"{tasks[name]} {name.replace('_', ' ')}" for name in counted))
    lines.append(f"waiting   {_spread(found['wait_seconds'], mean=True)} until a worker took a task")
    lines.append(f"oldest    {_spread(found['oldest_age_seconds'])} of the time")
    lines.append(
        f"workers   {workers['peak_replicas']} at most, {workers['mean_replicas']:g} on average, "
        f"{workers['worker_hours']:g} worker-hours, busy {_percent(workers)} of it; "
        f"{workers['scale_outs']} scale-outs, {workers['scale_ins']} scale-ins"
    )
    lines.append(
        f"trouble   {workers['crashes']} crashes, {workers['busy_told_to_end']} busy workers told to end, "
        f"{workers['busy_killed']} killed with work in hand, {workers['wrong_victims']} wrong victims"
    )
    if cost["tokens"] or cost["cost_micros"]:
        lines.append(
            f"cost      {cost['cost_micros'] / 1e6:.2f} in all, {cost['cost_micros_per_completed'] or 0:g} micros "
            f"per completed task, {cost['tokens']} tokens"
        )
    lines.append(f"wasted    {cost['wasted_share'] * 100:.1f} % of the work was done in vain")
    if found["runs"]:
        lines.append("runs      " + ", ".join(f"{count} {state}" for state, count in found["runs"].items()))
    for reason, blocked in found["blocked"].items():
        share = f"{blocked['share_of_time'] * 100:.1f} % of the time"
        lines.append(f"blocked   {reason}: {blocked['peak']} tasks at most, {share}")
    for name, provider in found["providers"].items():
        lines.append(f"provider  {name}: {provider['refused_429']} times 429, {provider['failed']} failed")
    for tenant, each in found["tenants"].items():
        lines.append(
            f"tenant    {tenant}: {each['completed']} completed, {_spread(each['wait_seconds'], mean=True)}, "
            f"{each['peak_in_flight']} in flight at most"
        )
    return lines


def _spread(found: dict[str, float | None], *, mean: bool = False) -> str:
    parts = [f"mean {found['mean']:.1f} s"] if mean and found.get("mean") is not None else []
    for name, word in (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p100", "max")):
        value = found.get(name)
        if value is not None:
            parts.append(f"{word} {value:.1f} s")
    return ", ".join(parts) or "nothing waited"


def _percent(workers: dict[str, Any]) -> str:
    whole = workers["worker_seconds"]
    return f"{100 * workers['busy_seconds'] / whole:.0f} %" if whole else "-"


def _span(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:g} h"
    return f"{seconds:g} s"


def _mean(values: Sequence[float]) -> float | None:
    return _round(sum(values) / len(values), 3) if values else None


def _percentiles(ordered: Sequence[float]) -> dict[str, float | None]:
    return {f"p{percent}": _round(percentile(ordered, percent)) for percent in _PERCENTILES}


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return the value that so many percent do not exceed; None of nothing."""
    if not ordered:
        return None
    return ordered[max(0, -(-int(len(ordered) * percent) // 100) - 1)]


def _round(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)
