"""`leadsman pause` and `leadsman resume`: stop leasing a capability for a while."""

import asyncio
from typing import Annotated

import typer

from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, connect
from leadsman.cli.output import print_json
from leadsman.cli.pipes import until_reader_gone
from leadsman.client import Client
from leadsman.wire.capabilities import PauseReply

Capability = Annotated[str, typer.Argument(help="The queue.", metavar="CAPABILITY")]


@until_reader_gone
def pause(
    capability: Capability,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever wonders later.")] = "",
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Lease nothing of a capability until it is resumed. What runs goes on, new work is accepted."""
    reply = asyncio.run(_pause(connect(broker_url, namespace, token_file), capability, reason))
    return _show(reply, json_output=json_output)


@until_reader_gone
def resume(
    capability: Capability,
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Lease a paused capability again."""
    reply = asyncio.run(_resume(connect(broker_url, namespace, token_file), capability))
    return _show(reply, json_output=json_output)


async def _pause(client: Client, capability: str, reason: str) -> PauseReply:
    async with client:
        return await client.pause(capability, reason=reason)


async def _resume(client: Client, capability: str) -> PauseReply:
    async with client:
        return await client.resume(capability)


def _show(reply: PauseReply, *, json_output: bool) -> int:
    if json_output:
        print_json(reply)
    else:
        now = "paused" if reply.paused else "resumed"
        why = f" ({reply.reason})" if reply.reason else ""
        print(f"{reply.name} {now}{why}" if reply.changed else f"{reply.name} was {now} already{why}")
    return Exit.OK
