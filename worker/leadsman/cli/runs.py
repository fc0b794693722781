"""`leadsman runs`: tasks that belong together, as one."""

from typing import Annotated

import typer

from leadsman.cli.cost import money
from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, ask, connect
from leadsman.cli.output import console, moment, print_json, say, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.wire.runs import RunState, RunView

runs = typer.Typer(help="Look at runs, and cancel them.")

_COLUMNS = ("RUN", "STATE", "LIVE", "COMPLETED", "DEAD", "EXPIRED", "CANCELLED", "TOKENS", "COST", "CREATED")
_NUMBERS = _COLUMNS[2:-1]

RunId = Annotated[str, typer.Argument(help="The run.", metavar="RUN")]


@runs.command("list")
@until_reader_gone
def list_runs(
    *,
    state: Annotated[RunState | None, typer.Option("--state", help="Only runs in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, the newest first.", min=1)] = 100,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """List runs, the newest first."""
    found = ask(connect(broker_url, namespace, token_file), lambda client: client.runs(state=state, limit=limit))
    if json_output:
        for view in found:
            print_json(view)
    elif found:
        console().print(table(_COLUMNS, [_row(view) for view in found], right=_NUMBERS))
    else:
        say("no runs")
    return Exit.OK


@runs.command("show")
@until_reader_gone
def show(
    run_id: RunId,
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Show a run: what became of its tasks, what it used, its caps."""
    view = ask(connect(broker_url, namespace, token_file), lambda client: client.get_run(run_id))
    _show(view, json_output=json_output)
    return Exit.OK


@runs.command("cancel")
@until_reader_gone
def cancel(
    run_id: RunId,
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Cancel a run and all its tasks: queued ones at once, running ones at their next heartbeat."""
    view = ask(connect(broker_url, namespace, token_file), lambda client: client.cancel_run(run_id))
    _show(view, json_output=json_output)
    return Exit.OK


def _show(view: RunView, *, json_output: bool) -> None:
    if json_output:
        print_json(view)
        return
    counts, caps = view.tasks, view.caps
    fields = {
        "run": view.id,
        "state": view.state.value,
        "reason": view.reason,
        "tasks": f"{counts.accepted} accepted, {counts.live} live, {counts.completed} completed, "
        f"{counts.dead} dead, {counts.expired} expired, {counts.cancelled} cancelled{_of(caps.max_tasks)}",
        "tokens": f"{view.tokens}{_of(caps.max_tokens)}, {view.lost_tokens} by attempts that lost their lease",
        "cost": f"{money(view.cost_micros)}"
        f"{_of(None if caps.max_cost_micros is None else money(caps.max_cost_micros))}"
        f", {money(view.lost_cost_micros)} by attempts that lost their lease",
        "time": None if caps.max_seconds is None else f"at most {caps.max_seconds:g} s",
        "created": moment(view.created_at),
        "ended": None if view.ended_at is None else moment(view.ended_at),
    }
    console().print(table(("FIELD", "VALUE"), [(name, value) for name, value in fields.items() if value]))


def _of(cap: int | str | None) -> str:
    return "" if cap is None else f" (at most {cap})"


def _row(view: RunView) -> tuple[str, ...]:
    counts = view.tasks
    numbers = (counts.live, counts.completed, counts.dead, counts.expired, counts.cancelled, view.tokens)
    return (view.id, view.state.value, *map(str, numbers), money(view.cost_micros), moment(view.created_at))
