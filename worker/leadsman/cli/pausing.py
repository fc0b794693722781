"""`leadsman pause` and `leadsman resume`: stop leasing a capability for a while."""

from typing import Annotated

import typer

from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, ask, connect
from leadsman.cli.output import print_json
from leadsman.cli.pipes import until_reader_gone
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
    reply = ask(connect(broker_url, namespace, token_file), lambda client: client.pause(capability, reason=reason))
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
    reply = ask(connect(broker_url, namespace, token_file), lambda client: client.resume(capability))
    return _show(reply, json_output=json_output)


def _show(reply: PauseReply, *, json_output: bool) -> int:
    if json_output:
        print_json(reply)
    else:
        now = "paused" if reply.paused else "resumed"
        why = f" ({reply.reason})" if reply.reason else ""
        print(f"{reply.name} {now}{why}" if reply.changed else f"{reply.name} was {now} already{why}")
    return Exit.OK
