"""`leadsman explain`: why something is as it is."""

import asyncio
import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from leadsman.cli import kubectl
from leadsman.cli.options import BrokerUrl, JsonOutput, TokenFile, connect
from leadsman.cli.output import console, print_json, say
from leadsman.cli.pipes import until_reader_gone
from leadsman.cli.pool_report import changes, report
from leadsman.client import Client
from leadsman.errors import LeadsmanError
from leadsman.wire.stats import StatsSnapshot

explain = typer.Typer(help="Say why something is as it is.")

_PoolNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="[env LEADSMAN_NAMESPACE; the one of kubectl's context]"),
]


@explain.command("pool")
@until_reader_gone
def pool(
    name: Annotated[str, typer.Argument(help="The WorkerPool.", metavar="NAME")],
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: _PoolNamespace = None,
    token_file: TokenFile = None,
) -> int:
    """Say why a pool has the size it has: inputs, formula, each bound, and what would change it.

    The pool is read with kubectl. The numbers of this moment are added when the broker can be reached.
    """
    found = kubectl.get("workerpools.leadsman.dev", name, namespace or os.environ.get("LEADSMAN_NAMESPACE") or None)
    live: StatsSnapshot | None = None
    try:
        live = asyncio.run(_stats(connect(broker_url, found["metadata"]["namespace"], token_file)))
    except LeadsmanError as error:
        say(f"without the numbers of this moment: {error}")
    if json_output:
        status = found.get("status") or {}
        print_json(
            {
                "pool": name,
                "namespace": found["metadata"]["namespace"],
                "last_decision": status.get("lastDecision"),
                "conditions": status.get("conditions") or [],
                "would_change_it": changes(found),
                "live": None if live is None else live.model_dump(mode="json", exclude_none=True),
            }
        )
        return 0
    shown = console()
    for part in report(found, live, datetime.now(UTC)):
        shown.print(part)
    return 0


async def _stats(client: Client) -> StatsSnapshot:
    async with client:
        return await client.stats()
