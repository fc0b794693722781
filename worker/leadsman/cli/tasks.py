"""`leadsman tasks`: what became of a task."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, connect
from leadsman.cli.output import as_json, console, print_json, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.client import Client
from leadsman.wire.tasks import TaskView

tasks = typer.Typer(help="Read tasks.")


@tasks.command("get")
@until_reader_gone
def get(
    task_id: Annotated[str, typer.Argument(help="What `leadsman submit` printed.", metavar="ID")],
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Show a task with its attempts and history."""
    view = asyncio.run(_get(connect(broker_url, namespace, token_file), task_id))
    if json_output:
        print_json(view)
    else:
        shown = console()
        shown.print(table(("FIELD", "VALUE"), _fields(view)))
        if view.history:
            shown.print()
            shown.print(table(("TIME", "EVENT", "EPOCH", "WORKER", "DETAIL"), _history(view)))
    return 0


async def _get(client: Client, task_id: str) -> TaskView:
    async with client:
        return await client.get(task_id)


def _fields(view: TaskView) -> list[tuple[str, str]]:
    counts = view.attempts
    error = f"{view.error.type}: {view.error.message}" if view.error else None
    fields = {
        "id": view.id,
        "state": str(view.state),
        "reason": view.reason,
        "error": error,
        "result": None if view.result is None else as_json(view.result),
        "queue": f"{view.namespace}/{view.capability}",
        "handler": view.name,
        "class": f"{view.task_class}, priority {view.priority}",
        "tenant": view.tenant or None,
        "key": view.idempotency_key,
        "attempts": f"{counts.failures + counts.reclaims} of {view.max_attempts} spent",
        "counts": f"{counts.deliveries} deliveries, {counts.failures} failures, {counts.reclaims} reclaims, "
        f"{counts.releases} releases",
        "accepted": _time(view.accepted_at),
        "due": None if view.due_at is None else _time(view.due_at),
        "settled": None if view.settled_at is None else _time(view.settled_at),
        "worker": view.worker,
    }
    return [(name, " ".join(value.split())) for name, value in fields.items() if value]


def _history(view: TaskView) -> list[tuple[str, ...]]:
    return [
        (
            _time(entry.at),
            entry.event,
            str(entry.epoch),
            entry.worker or "-",
            " ".join((entry.detail or "-").split()),
        )
        for entry in view.history
    ]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
