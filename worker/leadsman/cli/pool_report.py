"""A pool's last decision in words: what went in, the formula, each bound, and what would change it."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from leadsman.cli.output import age, table
from leadsman.hints import hint
from leadsman.wire.leases import WorkerState
from leadsman.wire.stats import StatsSnapshot, WorkerStats

Json = Mapping[str, Any]

_INPUTS = ("CAPABILITY", "WAITING", "LEASABLE", "LEASED", "SERVICE", "OLDEST", "SLOTS")
_QUEUES = ("CAPABILITY", "WAITING", "LEASABLE", "LEASED", "OLDEST", "BLOCKED")


def capabilities_of(pool: Json) -> tuple[str, ...]:
    """Return the capabilities that a pool serves, the default filled in."""
    return tuple(pool.get("spec", {}).get("capabilities") or (pool["metadata"]["name"],))


def report(pool: Json, live: StatsSnapshot | None, now: datetime) -> Iterator[RenderableType]:
    """Give the report, part by part. `live`: what the broker says now, if it could be asked."""
    status = pool.get("status") or {}
    last = status.get("lastDecision")
    name = pool["metadata"]["name"]
    if not last:
        yield Text(f"{name}: nothing has been decided yet; is the operator running?")
        yield from _conditions(status)
        return
    yield Text(f"{name}: {last.get('summary', '')}")
    yield Text(_headline(pool, last, now))
    yield from _section("What went in", _inputs(last))
    yield from _section("How the number came about", _formula(last))
    if live is not None:
        yield from _section("What the broker says now", _live(pool, live))
    yield from _section("What would change it", [Text(f"  {line}") for line in changes(pool)])
    yield from _conditions(status)


def changes(pool: Json) -> list[str]:
    """Say what would change the decision: each bound that changed the number, and the reason it ended with."""
    status = pool.get("status") or {}
    last = status.get("lastDecision") or {}
    found: dict[str, str] = {}
    for clamp in last.get("clamps") or ():
        figures = f"{clamp.get('before')} -> {clamp.get('after')}"
        found[clamp["reason"]] = f"{clamp['reason']} ({figures}): {hint(clamp['reason']) or clamp.get('note', '')}"
    reason = last.get("reason")
    if reason and reason not in found:
        found[reason] = f"{reason}: {hint(reason) or 'see docs/troubleshooting.md'}"
    for condition in status.get("conditions") or ():
        good = "False" if condition.get("type") in {"Conflict", "ScalingLimited"} else "True"
        if condition.get("status") in {good, "Unknown"} or condition["reason"] in found:
            continue
        advice = hint(condition["reason"]) or condition.get("message", "")
        found[condition["reason"]] = f"{condition['reason']}: {advice}"
    return list(found.values())


def _headline(pool: Json, last: Json, now: datetime) -> str:
    moment = last.get("time")
    ago = f", {age((now - _moment(moment)).total_seconds())} ago" if moment else ""
    spec = pool.get("spec", {})
    bounds = f"between {spec.get('minReplicas', 0)} and {spec.get('maxReplicas')}"
    start = last.get("startupSeconds")
    starting = f"; its pods take {start} s to start" if start is not None else ""
    sizes = f"{last.get('currentReplicas')} replicas, {last.get('desiredReplicas')} wanted"
    return f"{last.get('action', 'Hold')} because of {last.get('reason')}{ago}: {sizes}, {bounds}{starting}"


def _inputs(last: Json) -> list[RenderableType]:
    rows = [
        (
            f"  {each['capability']}",
            str(each.get("waiting", 0)),
            str(each.get("leasable", 0)),
            str(each.get("leased", 0)),
            "-" if each.get("serviceMilliseconds") is None else f"{each['serviceMilliseconds'] / 1000:g}s",
            age(each.get("oldestAgeSeconds")),
            str(each.get("slots", 0)),
        )
        for each in last.get("inputs") or ()
    ]
    return [table((f"  {_INPUTS[0]}", *_INPUTS[1:]), rows, right=_INPUTS[1:])] if rows else []


def _formula(last: Json) -> list[RenderableType]:
    lines = [each["formula"] for each in last.get("inputs") or () if each.get("formula")]
    if last.get("formula"):
        lines.append(last["formula"])
    lines += [
        f"{clamp['before']} -> {clamp['after']}: {clamp['reason']}, {clamp.get('note', '')}".rstrip(", ")
        for clamp in last.get("clamps") or ()
    ]
    return [Text(f"  {line}") for line in lines]


def _live(pool: Json, live: StatsSnapshot) -> list[RenderableType]:
    names = set(capabilities_of(pool))
    rows = [
        (
            f"  {queue.name}",
            str(queue.waiting),
            str(queue.leasable),
            str(queue.leased),
            age(queue.oldest_age_seconds),
            ", ".join(f"{reason} {tasks}" for reason, tasks in sorted(queue.blocked.items())) or "-",
        )
        for queue in sorted(live.capabilities, key=lambda one: one.name)
        if queue.name in names
    ]
    workers = [worker for worker in live.workers if worker.pool == pool["metadata"]["name"]]
    return [
        table((f"  {_QUEUES[0]}", *_QUEUES[1:]), rows, right=_QUEUES[1:-1]),
        Text(f"  workers: {_workers(workers)}"),
    ]


def _workers(workers: list[WorkerStats]) -> str:
    if not workers:
        return "none"
    active = [worker for worker in workers if worker.state is WorkerState.ACTIVE]
    busy = sum(worker.leases > 0 for worker in active)
    parts = [f"{busy} busy", f"{len(active) - busy} idle"]
    for state in WorkerState:
        count = sum(worker.state is state for worker in workers)
        if count and state is not WorkerState.ACTIVE:
            parts.append(f"{count} {state}")
    return f"{len(workers)}: {', '.join(parts)}"


def _conditions(status: Json) -> Iterator[RenderableType]:
    rows = [
        (f"  {each['type']}", each["status"], each["reason"], each.get("message", ""))
        for each in status.get("conditions") or ()
    ]
    if rows:
        yield from _section("Conditions", [table(("  CONDITION", "STATUS", "REASON", "MESSAGE"), rows)])


def _section(title: str, parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    found = list(parts)
    if found:
        yield Text()
        yield Text(title)
        yield from found


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
