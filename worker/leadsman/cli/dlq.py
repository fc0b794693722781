"""`leadsman dlq`: tasks that ran out of attempts, and how to give them another chance or let them go."""

import asyncio
import sys
from typing import Annotated

import typer

from leadsman.cli import dead_filter as f
from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, ask, connect
from leadsman.cli.output import console, moment, print_json, say, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.cli.tasks import show
from leadsman.client import Client
from leadsman.client.asynchronous import Redriving, why_ended
from leadsman.errors import LeadsmanError
from leadsman.wire.dead_letters import DeadFilter, DeadGroups, PurgeResult, RedriveResult
from leadsman.wire.problems import ProblemCode

dlq = typer.Typer(help="Look after dead-letter queues.")

Capability = Annotated[str, typer.Argument(help="The queue.", metavar="CAPABILITY")]
Ids = Annotated[list[str] | None, typer.Argument(help="Task ids.", metavar="[ID]...", show_default=False)]
Every = Annotated[bool, typer.Option("--all", help="Every dead task there is.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many.")]

_SHOWN = 20
"""Tasks that are named one by one; the rest is counted."""


@dlq.command("list")
@until_reader_gone
def list_dead(
    capability: Capability,
    *,
    group: Annotated[bool, typer.Option("--group", help="Count them by reason and error instead.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, oldest first.", min=1)] = 100,
    error: f.Error = None,
    reason: f.Reason = None,
    handler: f.Handler = None,
    tenant: f.Tenant = None,
    run: f.Run = None,
    since: f.Since = None,
    until: f.Until = None,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """List the dead tasks of a capability and why they are dead."""
    chosen = f.dead_filter(error, reason, handler, tenant, run, since, until)
    client = connect(broker_url, namespace, token_file)
    if group:
        groups = ask(client, lambda client: client.dead_groups(capability, where=chosen))
        return _show_groups(groups, capability, json_output=json_output)
    found = ask(client, lambda client: client.dead(capability, limit=limit, where=chosen))
    if json_output:
        for view in found:
            print_json(view)
    elif found:
        rows = [
            (
                view.id,
                view.name,
                str(view.attempts.failures + view.attempts.reclaims),
                moment(view.settled_at),
                why_ended(view),
            )
            for view in found
        ]
        console().print(table(("ID", "HANDLER", "ATTEMPTS", "DIED", "REASON"), rows))
    else:
        say(f"no dead tasks in {capability}")
    return Exit.OK


@dlq.command("show")
@until_reader_gone
def show_dead(
    task_id: Annotated[str, typer.Argument(help="A task's id.", metavar="ID")],
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Show a task in full: payload, error, attempts and history."""
    view = ask(connect(broker_url, namespace, token_file), lambda client: client.get(task_id, payload=True))
    return show(view, json_output=json_output)


@dlq.command("redrive")
@until_reader_gone
def redrive(
    capability: Capability,
    ids: Ids = None,
    *,
    every: Every = False,
    error: f.Error = None,
    reason: f.Reason = None,
    handler: f.Handler = None,
    tenant: f.Tenant = None,
    run: f.Run = None,
    since: f.Since = None,
    until: f.Until = None,
    dry_run: DryRun = False,
    wait_for_room: Annotated[
        float, typer.Option("--wait-for-room", help="Seconds to keep trying while the queue is full.", min=0)
    ] = 0.0,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Put dead tasks back in their queue, with their attempts reset and their history kept.

    Many are put back in steps that leave half of the queue to new work. When it was interrupted, the same command
    goes on.
    """
    chosen = f.dead_filter(error, reason, handler, tenant, run, since, until)
    _one_way(ids, chosen, every=every)
    client = connect(broker_url, namespace, token_file)
    if dry_run:
        count = ask(client, lambda client: client.count_dead(capability, ids or chosen, redrivable=True))
        return _show_count(count, "redriven", json_output=json_output)
    if ids:
        results = ask(client, lambda client: client.redrive(capability, ids, wait_for_room_seconds=wait_for_room))
        return _show_redriven(results, json_output=json_output)
    done = ask(client, lambda client: _redrive_where(client, capability, chosen, wait_for_room))
    return _show_redriving(done, json_output=json_output)


@dlq.command("purge")
@until_reader_gone
def purge(
    capability: Capability,
    ids: Ids = None,
    *,
    every: Every = False,
    error: f.Error = None,
    reason: f.Reason = None,
    handler: f.Handler = None,
    tenant: f.Tenant = None,
    run: f.Run = None,
    since: f.Since = None,
    until: f.Until = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Remove dead tasks for good, with payload, history and idempotency key."""
    chosen = f.dead_filter(error, reason, handler, tenant, run, since, until)
    _one_way(ids, chosen, every=every)
    count = ask(
        connect(broker_url, namespace, token_file), lambda client: client.count_dead(capability, ids or chosen)
    )
    if dry_run:
        return _show_count(count, "purged", json_output=json_output)
    if count and not yes:
        if json_output or not sys.stdin.isatty():
            raise typer.BadParameter(f"{count} tasks would be removed for good; say --yes")
        typer.confirm(f"Remove {count} dead tasks of {capability} for good?", abort=True, err=True)
    client = connect(broker_url, namespace, token_file)
    if ids:
        return _show_purged(ask(client, lambda client: client.purge(capability, ids)), json_output=json_output)
    purged = ask(client, lambda client: client.purge_where(capability, chosen))
    if json_output:
        print_json({"purged": purged})
    else:
        print(f"purged {purged}")
    return Exit.OK


def _one_way(ids: list[str] | None, chosen: DeadFilter, *, every: bool) -> None:
    ways = [bool(ids), every, not f.is_all(chosen)]
    if sum(ways) != 1:
        raise typer.BadParameter("name the tasks by id, or choose them by --error and the like, or say --all")


def _show_groups(found: DeadGroups, capability: str, *, json_output: bool) -> int:
    if json_output:
        for group in found.groups:
            print_json(group)
    elif found.groups:
        rows = [
            (
                str(group.tasks),
                group.reason,
                group.error or "-",
                moment(group.first_died_at),
                moment(group.last_died_at),
                group.sample_id,
                " ".join((group.sample_message or "-").split()),
            )
            for group in found.groups
        ]
        columns = ("TASKS", "REASON", "ERROR", "FIRST DIED", "LAST DIED", "SAMPLE", "MESSAGE")
        console().print(table(columns, rows, right=("TASKS",)))
        rest = found.tasks - sum(group.tasks for group in found.groups)
        if rest:
            say(f"and {rest} of other errors")
    else:
        say(f"no dead tasks in {capability}")
    return Exit.OK


def _show_count(count: int, what: str, *, json_output: bool) -> int:
    if json_output:
        print_json({"matched": count})
    else:
        print(f"{count} would be {what}")
    return Exit.OK


def _show_redriven(results: list[RedriveResult], *, json_output: bool) -> int:
    failed = [result for result in results if not result.redriven]
    if json_output:
        for result in results:
            print_json(result)
    else:
        print(f"redriven {len(results) - len(failed)} of {len(results)}")
        _name([(result.id, result.reason or result.code) for result in failed], "redriven")
    if any(result.code == ProblemCode.SATURATED for result in failed):
        return Exit.REFUSED
    return Exit.ERROR if failed else Exit.OK


def _show_redriving(done: Redriving, *, json_output: bool) -> int:
    if json_output:
        print_json({"redriven": done.redriven, "left": len(done.left), "retry_after_s": done.retry_after_s})
    else:
        print(f"redriven {done.redriven}")
        _name([(result.id, result.reason or result.code) for result in done.left], "redriven")
        if done.retry_after_s is not None:
            say(f"the queue has no room for more now; the same command goes on, in {done.retry_after_s} s or so")
    if done.retry_after_s is not None:
        return Exit.REFUSED
    return Exit.ERROR if done.left else Exit.OK


def _show_purged(results: list[PurgeResult], *, json_output: bool) -> int:
    failed = [result for result in results if not result.purged]
    if json_output:
        for result in results:
            print_json(result)
    else:
        print(f"purged {len(results) - len(failed)} of {len(results)}")
        _name([(result.id, result.reason or result.code) for result in failed], "purged")
    return Exit.ERROR if failed else Exit.OK


def _name(failed: list[tuple[str, str | None]], what: str) -> None:
    for task_id, why in failed[:_SHOWN]:
        say(f"not {what}: {task_id}: {why}")
    if len(failed) > _SHOWN:
        say(f"and {len(failed) - _SHOWN} more")


async def _redrive_where(client: Client, capability: str, chosen: DeadFilter, wait_for_room: float) -> Redriving:
    done = 0

    def note(redriven: int) -> None:
        nonlocal done
        done = redriven

    try:
        return await client.redrive_where(capability, chosen, wait_for_room_seconds=wait_for_room, progress=note)
    except (asyncio.CancelledError, LeadsmanError):
        if done:
            say(f"redriven {done} before it was cut short; the same command goes on")
        raise
