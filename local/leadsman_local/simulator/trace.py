"""Recording what a running broker did, as arrivals that a scenario can play."""

from collections.abc import Iterator
from typing import Any

from leadsman.wire.tasks import TaskView


def recorded(views: list[TaskView]) -> Iterator[dict[str, Any]]:
    """Yield one line of a trace per task, in order of acceptance; times count from the first."""
    ordered = sorted(views, key=lambda view: (view.accepted_at, view.id))
    for view in ordered:
        line: dict[str, Any] = {
            "at": round(view.accepted_at - ordered[0].accepted_at, 3),
            "capability": view.capability,
            "class": view.task_class.value,
            "priority": view.priority,
        }
        if view.tenant:
            line["tenant"] = view.tenant
        seconds = service_seconds(view)
        if seconds is not None:
            line["seconds"] = seconds
        yield line


def service_seconds(view: TaskView) -> float | None:
    """Return how long the attempt took that completed the task; None while there is none."""
    leased = None
    for entry in view.history:
        if entry.event == "leased":
            leased = entry.at
        elif entry.event == "completed" and leased is not None:
            return round(entry.at - leased, 3)
    return None
