"""`leadsman dlq`: tasks that ran out of attempts, and how to give them another chance."""

import asyncio
from typing import Annotated

import typer

from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, connect
from leadsman.cli.output import console, print_json, say, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.client import Client
from leadsman.client.asynchronous import why_ended
from leadsman.wire.base import MAX_BATCH
from leadsman.wire.dead_letters import RedriveResult
from leadsman.wire.problems import ProblemCode
from leadsman.wire.tasks import TaskView

dlq = typer.Typer(help="Look after dead-letter queues.")

Capability = Annotated[str, typer.Argument(help="The queue.", metavar="CAPABILITY")]


@dlq.command("list")
@until_reader_gone
def list_dead(
    capability: Capability,
    *,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, oldest first.", min=1)] = 100,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """List the dead tasks of a capability and why they are dead."""
    found = asyncio.run(_dead(connect(broker_url, namespace, token_file), capability, limit))
    if json_output:
        for view in found:
            print_json(view)
    elif found:
        rows = [
            (view.id, view.name, str(view.attempts.failures + view.attempts.reclaims), why_ended(view))
            for view in found
        ]
        console().print(table(("ID", "HANDLER", "ATTEMPTS", "REASON"), rows))
    else:
        say(f"no dead tasks in {capability}")
    return Exit.OK


@dlq.command("redrive")
@until_reader_gone
def redrive(
    capability: Capability,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Task ids.", metavar="[ID]...", show_default=False)
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every dead task there is now.")] = False,
    wait_for_room: Annotated[
        float, typer.Option("--wait-for-room", help="Seconds to keep trying while the queue is full.", min=0)
    ] = 0.0,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Put dead tasks back in their queue, with their attempts reset and their history kept."""
    if bool(ids) == every:
        raise typer.BadParameter("name the tasks by id, or say --all")
    client = connect(broker_url, namespace, token_file)
    results = asyncio.run(_redrive(client, capability, ids, wait_for_room))
    failed = [result for result in results if not result.redriven]
    if json_output:
        for result in results:
            print_json(result)
    else:
        print(f"redriven {len(results) - len(failed)} of {len(results)}")
        for result in failed[:20]:
            say(f"not redriven: {result.id}: {result.reason or result.code}")
        if len(failed) > 20:
            say(f"and {len(failed) - 20} more")
    if any(result.code == ProblemCode.SATURATED for result in failed):
        return Exit.REFUSED
    return Exit.ERROR if failed else Exit.OK


async def _dead(client: Client, capability: str, limit: int) -> list[TaskView]:
    async with client:
        return await client.dead(capability, limit=limit)


async def _redrive(
    client: Client, capability: str, ids: list[str] | None, wait_for_room: float
) -> list[RedriveResult]:
    async with client:
        if ids is None:
            return await _redrive_all(client, capability, wait_for_room)
        return await client.redrive(capability, ids, wait_for_room_seconds=wait_for_room)


async def _redrive_all(client: Client, capability: str, wait_for_room: float) -> list[RedriveResult]:
    """Go page by page until nothing is left, or a page brings nothing new (a full queue, or new deaths)."""
    results: dict[str, RedriveResult] = {}
    while True:
        page = [view.id for view in await client.dead(capability, limit=MAX_BATCH) if view.id not in results]
        if not page:
            return list(results.values())
        answers = await client.redrive(capability, page, wait_for_room_seconds=wait_for_room)
        results |= {answer.id: answer for answer in answers}
        if not any(answer.redriven for answer in answers):
            return list(results.values())
