"""The broker over real HTTP on real SQLite: `python bench/broker.py`, one JSON object a line.

A broker process with `synchronous=FULL` on the disk of --data, and one client process with raw HTTP/1.1 over
asyncio, both on this machine's cores. A lifecycle is enqueue, lease and ack of one task, each acknowledged as
durable. The processor time for each, of the broker and of the client, is given beside the rate: it holds on a busy
machine too, and shows that the client is not the limit. --quick looks at everything in a minute.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import uvloop
from uvicorn.protocols.http.auto import AutoHTTPProtocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from broker_process import BrokerProcess
from figures import Figures
from load import (
    CAPABILITY,
    Probe,
    at,
    connect,
    cpu_seconds,
    dequeues,
    enqueues,
    lifecycles,
    pickups,
    rss_mib,
    tasks,
)

BATCH = 50
WORKERS = {"batched": 32, "single": 32}
PAYLOAD_BYTES = 256
LARGE_PAYLOAD_BYTES = 1024
SHALLOW = 1_000
TENANTS = 10_000
TURNS = 6
"""Of a long queue and a short one."""

Report = Callable[..., None]


async def rates(broker: BrokerProcess, seconds: float, report: Report) -> None:
    for name, batch in (("batched", BATCH), ("single", 1)):
        workers = WORKERS[name]
        body = tasks(batch, PAYLOAD_BYTES)
        used = cpu_seconds(broker.pid)
        rate = await lifecycles(broker.port, workers, body, batch, seconds)
        used = (cpu_seconds(broker.pid) - used) / max(1, rate.done) * 1_000_000
        conditions = {"batch": batch, "workers": workers, "client_cpu_us": round(rate.client_cpu_us)}
        report(f"lifecycle_{name}_per_s", rate.per_second, "1/s", **conditions)
        report(f"lifecycle_{name}_cpu_us", used, "us", **conditions)


async def latencies(broker: BrokerProcess, seconds: float, report: Report) -> None:
    body = tasks(1, PAYLOAD_BYTES)
    for connections in (1, 8, 64, 256):
        rate, found = await enqueues(broker.port, connections, body, seconds)
        report(f"enqueue_per_s_{connections}", rate.per_second, "1/s", connections=connections)
        report(f"enqueue_p50_ms_{connections}", at(found, 0.5), "ms", connections=connections)
        report(f"enqueue_p99_ms_{connections}", at(found, 0.99), "ms", connections=connections)


async def idle_workers(broker: BrokerProcess, seconds: float, report: Report) -> None:
    body = tasks(1, PAYLOAD_BYTES)
    count = int(60 * seconds)
    for waiting, suffix in ((1, ""), (1_000, "_1000_waiting")):
        found = await pickups(broker.port, count, body, waiting)
        report(f"pickup_p50_ms{suffix}", at(found, 0.5), "ms", waiting=waiting, pickups=count)
        report(f"pickup_p99_ms{suffix}", at(found, 0.99), "ms", waiting=waiting, pickups=count)


async def many_tenants(broker: BrokerProcess, seconds: float, report: Report) -> None:
    """Each of many tenants has a task waiting; the next ones come in turn."""
    names = [f"tenant-{number}" for number in range(TENANTS)]
    connection = await connect(broker.port)
    for first in range(0, TENANTS, 1000):
        await connection.enqueue(tasks(1000, PAYLOAD_BYTES, names[first : first + 1000]))
    connection.close()
    body = tasks(BATCH, PAYLOAD_BYTES, names[: TENANTS : TENANTS // BATCH])
    rate = await lifecycles(broker.port, WORKERS["batched"], body, BATCH, seconds)
    report("lifecycle_batched_per_s_10k_tenants", rate.per_second, "1/s", tenants=TENANTS, batch=BATCH)


async def deep(broker: BrokerProcess, depth: int, seconds: float, report: Report) -> None:
    """A queue of very many tasks against one of a thousand in a broker beside it, taken from in turns."""
    name = short(depth)
    payload = {"queued": depth, "payload_bytes": LARGE_PAYLOAD_BYTES}
    at_rest = rss_mib(broker.pid)
    began = time.perf_counter()
    await fill(broker, depth)
    report(f"fill_per_s_{name}", depth / (time.perf_counter() - began), "1/s", **payload, batch=1000)
    report(f"rss_{name}_mib", rss_mib(broker.pid), "MiB", **payload, at_rest_mib=round(at_rest))
    with BrokerProcess(broker.folder / "shallow", memory=broker.memory, args=broker.args) as shallow:
        await fill(shallow, SHALLOW)
        short_queue: list[Dequeues] = []
        long_queue: list[Dequeues] = []
        both = [(shallow, short_queue), (broker, long_queue)]
        for turn in range(TURNS):
            for one, found in both if turn % 2 else reversed(both):
                found.append(await _dequeues(one, seconds / 3))
    ratios = [
        among_many.seconds / among_few.seconds
        for among_many, among_few in zip(long_queue, short_queue, strict=True)
    ]
    conditions = {
        **payload,
        "against": SHALLOW,
        "turns": TURNS,
        "lowest": round(min(ratios), 2),
        "highest": round(max(ratios), 2),
        "cpu_ratio": round(_median(long_queue, "cpu_seconds") / _median(short_queue, "cpu_seconds"), 2),
    }
    report(f"dequeue_slowdown_{name}", statistics.median(ratios), "ratio", **conditions)
    conditions = {
        "p999_ms": round(_median(long_queue, "pause_p999_ms"), 1),
        f"same_with_{SHALLOW}_queued_ms": round(max(one.pause_ms for one in short_queue), 1),
    }
    report(f"pause_max_ms_{name}", max(one.pause_ms for one in long_queue), "ms", **payload, **conditions)

    if broker.memory:
        return
    broker.terminate(60)
    began = time.perf_counter()
    used = time.process_time()
    await asyncio.to_thread(broker.start)
    await _until_answers(broker)
    seconds_to_start = time.perf_counter() - began
    report(
        f"restart_{name}_s",
        seconds_to_start,
        "s",
        **payload,
        page_cache="warm",
        cpu_seconds=round(cpu_seconds(broker.pid), 1),
        client_cpu_seconds=round(time.process_time() - used, 1),
    )
    report(f"rss_restarted_{name}_mib", rss_mib(broker.pid), "MiB", **payload)


class Dequeues(NamedTuple):
    """What taking tasks came to, for each of them, and the longest and the 99.9th-percentile pause meanwhile."""

    seconds: float
    cpu_seconds: float
    pause_ms: float
    pause_p999_ms: float


async def _dequeues(broker: BrokerProcess, seconds: float) -> Dequeues:
    body = tasks(BATCH, LARGE_PAYLOAD_BYTES)
    with Probe(broker.ops_port) as probe:
        used = cpu_seconds(broker.pid)
        began = time.perf_counter()
        cost = await dequeues(broker.port, 8, body, BATCH, seconds)
        lasted = time.perf_counter() - began
        used = cpu_seconds(broker.pid) - used
        worst, most = probe.worst_ms()
    done = 8 * lasted / cost  # eight workers, each all the time at it
    return Dequeues(cost, used / done, worst, most)


def _median(found: list[Dequeues], field: str) -> float:
    return statistics.median(getattr(one, field) for one in found)


async def fill(broker: BrokerProcess, count: int) -> None:
    """Put tasks into the queue, a thousand a call on four connections."""
    body = tasks(1000, LARGE_PAYLOAD_BYTES)
    left = iter(range(0, count, 1000))

    async def run() -> None:
        connection = await connect(broker.port)
        for first in left:
            await connection.enqueue(body if count - first >= 1000 else tasks(count - first, LARGE_PAYLOAD_BYTES))
        connection.close()

    await asyncio.gather(*(run() for _ in range(4)))


async def _until_answers(broker: BrokerProcess) -> None:
    """Wait for the first task leased: only then is it ready for anyone."""
    connection = await connect(broker.port)
    tokens = await connection.lease(0, 1)
    await connection.ack(tokens)
    connection.close()


def short(number: int) -> str:
    for unit, size in (("m", 1_000_000), ("k", 1_000)):
        if number % size == 0:
            return f"{number // size}{unit}"
    return str(number)


def http_parser() -> str:
    return AutoHTTPProtocol.__module__.rpartition(".")[2].removesuffix("_impl")


async def run(arguments: argparse.Namespace) -> None:
    report = Figures(
        "broker",
        store="memory" if arguments.memory else f"sqlite {apsw.sqlite_lib_version()} synchronous=FULL",
        http=http_parser(),
        payload_bytes=PAYLOAD_BYTES,
        seconds=arguments.seconds,
    ).report
    parts: dict[str, Callable[[BrokerProcess], Awaitable[None]]] = {
        "rates": lambda broker: rates(broker, arguments.seconds, report),
        "idle": lambda broker: idle_workers(broker, arguments.seconds, report),
        "enqueue": lambda broker: latencies(broker, arguments.seconds, report),
        "tenants": lambda broker: many_tenants(broker, arguments.seconds, report),
        "deep": lambda broker: deep(broker, arguments.depth, arguments.seconds, report),
    }
    for part in arguments.parts or parts:
        # A fresh broker and file for each, so that none pays for what another left behind.
        with tempfile.TemporaryDirectory(dir=arguments.data, prefix="leadsman-bench-") as folder:
            capabilities = Path(folder) / "capabilities.json"
            capabilities.write_text(json.dumps({"default": [{"name": CAPABILITY, "max_depth": 10_000_000}]}))
            args = ["--capabilities-file", str(capabilities), "--log-level", "warning"]
            with BrokerProcess(Path(folder), memory=arguments.memory, args=args) as broker:
                await parts[part](broker)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="rates, idle, enqueue, tenants, deep (default: all)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--depth", type=int, default=1_000_000, help="tasks in the deep queue")
    parser.add_argument("--data", help="folder on the disk to measure (default: the temporary folder)")
    parser.add_argument("--memory", action="store_true", help="without a disk, to see what the rest costs")
    parser.add_argument("--quick", action="store_true", help="a second each and 20,000 tasks deep")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds, arguments.depth = 1.0, 20_000
    uvloop.run(run(arguments))


if __name__ == "__main__":
    main()
