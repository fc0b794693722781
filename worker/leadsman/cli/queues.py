"""`leadsman queues`: what waits, what runs, who serves it."""

import asyncio
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, connect
from leadsman.cli.output import age, console, print_json, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.client import Client
from leadsman.wire.leases import WorkerState
from leadsman.wire.stats import CapabilityStats, StatsSnapshot, WorkerStats

_COLUMNS = (
    *("CAPABILITY", "READY", "DELAYED", "LEASED", "DEAD", "OLDEST", "SERVICE"),
    *("WORKERS", "SLOTS", "DONE", "FAILED", "RECLAIMED", "REFUSED", "BLOCKED"),
)
_NUMBERS = _COLUMNS[1:-1]


@until_reader_gone
def queues(
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing it until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between two looks.", min=0.1)] = 2.0,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Show the queues of a namespace and the workers that serve them."""
    client = connect(broker_url, namespace, token_file)
    asyncio.run(_show(client, interval if watch else None, json_output=json_output))
    return 0


async def _show(client: Client, interval: float | None, *, json_output: bool) -> None:
    async with client:
        snapshot = await client.stats()
        if json_output or interval is None:
            _print(client, snapshot, json_output=json_output)
        shown = console()
        if interval is None:
            return
        if json_output or not shown.is_terminal:
            while True:
                await asyncio.sleep(interval)
                _print(client, await client.stats(), json_output=json_output)
        with Live(_view(client, snapshot), console=shown, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(interval)
                live.update(_view(client, await client.stats()), refresh=True)


def _print(client: Client, snapshot: StatsSnapshot, *, json_output: bool) -> None:
    if json_output:
        print_json(snapshot)
    else:
        console().print(_view(client, snapshot))


def _view(client: Client, snapshot: StatsSnapshot) -> Group:
    if not snapshot.capabilities:
        return Group(Text(f"no queues in namespace {client.address.namespace}"))
    rows = [_row(queue, snapshot.workers) for queue in sorted(snapshot.capabilities, key=lambda one: one.name)]
    return Group(table(_COLUMNS, rows, right=_NUMBERS))


def _name(queue: CapabilityStats) -> str:
    if not queue.configured:
        return f"{queue.name} (no Capability)"
    return f"{queue.name} (paused)" if queue.paused else queue.name


def _row(queue: CapabilityStats, workers: list[WorkerStats]) -> list[str]:
    serving = [worker for worker in workers if queue.name in worker.capabilities]
    active = [worker for worker in serving if worker.state is WorkerState.ACTIVE]
    held = sum(worker.leases for worker in active)
    count = f"{len(active)}" if len(active) == len(serving) else f"{len(active)}+{len(serving) - len(active)}"
    return [
        _name(queue),
        str(queue.ready),
        str(queue.delayed),
        str(queue.leased),
        str(queue.dead),
        age(queue.oldest_age_seconds),
        "-" if queue.service_seconds is None else f"{queue.service_seconds:.2f}s",
        count,
        f"{held}/{sum(worker.slots for worker in active)}",
        str(queue.completed_total),
        str(queue.failed_total),
        str(queue.reclaimed_total),
        str(queue.refused_total),
        ", ".join(f"{reason} {tasks}" for reason, tasks in sorted(queue.blocked.items())) or "-",
    ]
