"""`leadsman tasks`: what became of tasks, and ending them."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, ask, connect
from leadsman.cli.output import age, as_json, console, moment, print_error, print_json, say, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.client import Client
from leadsman.client.asynchronous import why_ended
from leadsman.errors import NotFoundError
from leadsman.wire.tasks import TaskState, TaskView

tasks = typer.Typer(help="Read tasks, and cancel them.")


HISTORY_COLUMNS = ("TIME", "EVENT", "EPOCH", "WORKER", "DETAIL")


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
    view = ask(connect(broker_url, namespace, token_file), lambda client: client.get(task_id))
    return show(view, json_output=json_output)


def show(view: TaskView, *, json_output: bool) -> int:
    """Print a task and its history."""
    if json_output:
        print_json(view)
    else:
        shown = console()
        shown.print(table(("FIELD", "VALUE"), task_fields(view)))
        if view.history:
            shown.print()
            shown.print(table(HISTORY_COLUMNS, task_history(view)))
    return 0


@tasks.command("list")
@until_reader_gone
def list_tasks(
    *,
    state: Annotated[TaskState | None, typer.Option("--state", help="Only tasks in this state.")] = None,
    capability: Annotated[str | None, typer.Option("--capability", "-c", help="Only tasks of this queue.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only tasks of this tenant.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only tasks of this run.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="No more than so many.", min=1)] = 100,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """List tasks in order of acceptance."""
    wanted = {"capability": capability, "tenant": tenant, "run_id": run_id}
    found = ask(
        connect(broker_url, namespace, token_file),
        lambda client: client.tasks(state=state, limit=limit, **wanted),
    )
    if json_output:
        for view in found:
            print_json(view)
    elif found:
        now = time.time()
        rows = [_row(view, now) for view in found]
        columns = ("ID", "CAPABILITY", "HANDLER", "STATE", "TENANT", "AGE", "ATTEMPTS", "WHY")
        console().print(table(columns, rows, right=("AGE", "ATTEMPTS")))
    else:
        say("no such tasks")
    return 0


@tasks.command("cancel")
@until_reader_gone
def cancel(
    ids: Annotated[list[str], typer.Argument(help="Which.", metavar="ID...")],
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Cancel tasks: at once while they wait, at their next heartbeat while they run.

    Exit code 1 when one is not known; the others are cancelled all the same.
    """
    return ask(
        connect(broker_url, namespace, token_file), lambda client: _cancel(client, ids, json_output=json_output)
    )


async def _cancel(client: Client, ids: Sequence[str], *, json_output: bool) -> int:
    code = Exit.OK
    for task_id in ids:
        try:
            view = await client.cancel(task_id)
        except NotFoundError as error:
            print_error(str(error), error.code, json_output=json_output)
            code = Exit.ERROR
            continue
        if json_output:
            print_json(view)
        elif view.state is TaskState.LEASED:
            print(f"{view.id} is told to stop")
        else:
            print(f"{view.id} is {view.state}")
    return code


def _row(view: TaskView, now: float) -> tuple[str, ...]:
    spent = view.attempts.failures + view.attempts.reclaims
    return (
        view.id,
        view.capability,
        view.name,
        str(view.state),
        view.tenant or "-",
        age(now - view.accepted_at),
        f"{spent}/{view.max_attempts}",
        why_ended(view) if view.reason or view.error else "-",
    )


def task_fields(view: TaskView) -> list[tuple[str, str]]:
    """Return what there is to say of a task: name and value of each field that has one."""
    counts = view.attempts
    error = f"{view.error.type}: {view.error.message}" if view.error else None
    fields = {
        "id": view.id,
        "state": str(view.state),
        "reason": view.reason,
        "error": error,
        "payload": None if view.payload is None else as_json(view.payload),
        "result": None if view.result is None else as_json(view.result),
        "queue": f"{view.namespace}/{view.capability}",
        "handler": view.name,
        "class": f"{view.task_class}, priority {view.priority}",
        "tenant": view.tenant or None,
        "run": view.run_id,
        "key": view.idempotency_key,
        "attempts": f"{counts.failures + counts.reclaims} of {view.max_attempts} spent",
        "counts": f"{counts.deliveries} deliveries, {counts.failures} failures, {counts.reclaims} reclaims, "
        f"{counts.releases} releases",
        "accepted": moment(view.accepted_at, "milliseconds"),
        "due": None if view.due_at is None else moment(view.due_at, "milliseconds"),
        "settled": None if view.settled_at is None else moment(view.settled_at, "milliseconds"),
        "worker": view.worker,
    }
    return [(name, " ".join(value.split())) for name, value in fields.items() if value]


def task_history(view: TaskView) -> list[tuple[str, ...]]:
    """Return a task's history: time, event, epoch, worker, detail."""
    return [
        (
            moment(entry.at, "milliseconds"),
            entry.event,
            str(entry.epoch),
            entry.worker or "-",
            " ".join((entry.detail or "-").split()),
        )
        for entry in view.history
    ]
