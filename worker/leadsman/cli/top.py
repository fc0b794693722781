"""`leadsman top`: what a namespace does right now, by queue and by worker."""

import asyncio
import time
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, connect
from leadsman.cli.output import age, console, print_json, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.client import Client
from leadsman.wire.stats import CapabilityStats, StatsSnapshot, WorkerStats

_QUEUES = ("CAPABILITY", "READY", "LEASED", "OLDEST", "IN/s", "DONE/s", "FAILED/s", "LOST/s", "BLOCKED")
_WORKERS = ("WORKER", "POOL", "STATE", "SLOTS", "IDLE", "HEARD", "HOLDS")
_RATES = ("accepted", "completed", "failed", "reclaimed")


@until_reader_gone
def top(
    *,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between two looks.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Two looks, one interval apart, and no more.")] = False,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Watch queues and workers: rates over the last interval, who holds what. Into a pipe, a sample a time."""
    client = connect(broker_url, namespace, token_file)
    asyncio.run(_Top(client, interval, json_output=json_output).show(once=once))
    return 0


class _Top:
    def __init__(self, client: Client, interval: float, *, json_output: bool) -> None:
        self._client = client
        self._interval = interval
        self._json = json_output
        self._before: StatsSnapshot | None = None
        self._looked_at = 0.0

    async def show(self, *, once: bool) -> None:
        async with self._client:
            await self._look()
            shown = console()
            if not once and shown.is_terminal and not self._json:
                with Live(Text("one moment"), console=shown, auto_refresh=False, screen=False) as live:
                    while True:
                        live.update(self._view(*await self._next()), refresh=True)
            while True:
                sample = await self._next()
                if self._json:
                    print_json(_as_data(*sample))
                else:
                    shown.print(self._view(*sample))
                if once:
                    return

    async def _look(self) -> StatsSnapshot:
        self._before = await self._client.stats()
        self._looked_at = time.monotonic()
        return self._before

    async def _next(self) -> tuple[StatsSnapshot, dict[str, dict[str, float]]]:
        """Return the next sample, and by queue the rates a second since the last."""
        before, looked_at = self._before, self._looked_at
        await asyncio.sleep(self._interval)
        now = await self._look()
        known = {queue.name: queue for queue in before.capabilities} if before is not None else {}
        restarted = before is None or before.epoch != now.epoch
        seconds = max(0.001, self._looked_at - looked_at)
        return now, {
            queue.name: {
                what: 0.0
                if restarted or queue.name not in known
                else _rate(what, queue, known[queue.name], seconds)
                for what in _RATES
            }
            for queue in now.capabilities
        }

    def _view(self, sample: StatsSnapshot, rates: dict[str, dict[str, float]]) -> Group:
        queues = sorted(sample.capabilities, key=lambda one: one.name)
        workers = sorted(sample.workers, key=lambda one: (-one.leases, one.id))
        held, slots = sum(one.leases for one in workers), sum(one.slots for one in workers)
        waiting = sum(queue.ready for queue in queues)
        where = self._client.address.namespace
        head = f"{where}: {waiting} waiting, {held} of {slots} slots taken, {len(workers)} workers"
        parts: list[Any] = [Text(head), Text("")]
        parts.append(table(_QUEUES, [_queue(one, rates[one.name]) for one in queues], right=_QUEUES[1:-1]))
        if workers:
            parts += [
                Text(""),
                table(_WORKERS, [_worker(one) for one in workers], right=("SLOTS", "IDLE", "HEARD")),
            ]
        return Group(*parts)


def _rate(what: str, now: CapabilityStats, before: CapabilityStats, seconds: float) -> float:
    count: int = getattr(now, f"{what}_total") - getattr(before, f"{what}_total")
    return max(0.0, count / seconds)


def _queue(queue: CapabilityStats, rates: dict[str, float]) -> list[str]:
    return [
        queue.name,
        str(queue.ready),
        str(queue.leased),
        age(queue.oldest_age_seconds),
        *(f"{rates[what]:.1f}" for what in _RATES),
        ", ".join(f"{reason} {tasks}" for reason, tasks in sorted(queue.blocked.items())) or "-",
    ]


def _worker(worker: WorkerStats) -> list[str]:
    holds = ", ".join(f"{name} {count}" for name, count in sorted(worker.leases_by_capability.items()))
    return [
        worker.id,
        worker.pool or "-",
        str(worker.state),
        f"{worker.leases}/{worker.slots}",
        age(worker.idle_seconds) if not worker.leases else "-",
        age(worker.last_heard_seconds),
        holds or "-",
    ]


def _as_data(sample: StatsSnapshot, rates: dict[str, dict[str, float]]) -> dict[str, Any]:
    data: dict[str, Any] = sample.model_dump(mode="json", exclude_none=True)
    for queue in data["capabilities"]:
        queue["per_second"] = {what: round(rate, 3) for what, rate in rates[queue["name"]].items()}
    return data
