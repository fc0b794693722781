"""The options that choose dead tasks, the same for every command that takes some."""

import time
from typing import Annotated

import typer

from leadsman.cli.durations import duration
from leadsman.client.submission import fitting
from leadsman.wire.dead_letters import DeadFilter

_CHOOSE = "Which tasks"

Error = Annotated[
    str | None,
    typer.Option("--error", help='Only with this type of error; "" for none.', rich_help_panel=_CHOOSE),
]
Reason = Annotated[
    str | None,
    typer.Option("--reason", help="Only dead for this reason, such as Poison.", rich_help_panel=_CHOOSE),
]
Handler = Annotated[str | None, typer.Option("--handler", help="Only of this handler.", rich_help_panel=_CHOOSE)]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant.", rich_help_panel=_CHOOSE)]
Run = Annotated[str | None, typer.Option("--run", help="Only of this run.", rich_help_panel=_CHOOSE)]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Only those that died in the last 30m, 24h, 7d.", rich_help_panel=_CHOOSE),
]
Until = Annotated[
    str | None,
    typer.Option("--until", help="Only those that died longer ago than 30m, 24h, 7d.", rich_help_panel=_CHOOSE),
]


def dead_filter(  # noqa: PLR0917  one for each option above
    error: str | None,
    reason: str | None,
    handler: str | None,
    tenant: str | None,
    run: str | None,
    since: str | None,
    until: str | None,
) -> DeadFilter:
    """Return the filter that was chosen; without any option it fits every dead task. Raises InvalidValueError."""
    now = time.time()
    fields = {
        "error": error,
        "reason": reason,
        "name": handler,
        "tenant": tenant,
        "run": run,
        "died_after": None if since is None else now - duration(since),
        "died_before": None if until is None else now - duration(until),
    }
    return fitting(DeadFilter, fields, "which tasks")


def is_all(chosen: DeadFilter) -> bool:
    """Say whether it fits every dead task."""
    return chosen == DeadFilter()
