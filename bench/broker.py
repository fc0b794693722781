"""The broker over real HTTP on real SQLite: `python bench/broker.py`, one JSON object a line.

A broker process with `synchronous=FULL` on the disk of --data, and one client process with raw HTTP/1.1 over
asyncio, both on this machine's cores. A lifecycle is enqueue, lease and ack of one task, each acknowledged as
durable. The broker's processor time for each is given beside the rate: it holds on a busy machine too.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import uvloop
from uvicorn.protocols.http.auto import AutoHTTPProtocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from broker_process import BrokerProcess

NAMESPACE = "/v1/namespaces/default"
PAYLOAD_BYTES = 256
BATCH = 50


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time; does just enough HTTP for replies with a length."""

    def __init__(self) -> None:
        self._buffer = b""
        self._reply: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(rest) < length or self._reply is None:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._reply.set_exception(RuntimeError(f"{head!r} {rest[:500]!r}"))
        else:
            self._reply.set_result(rest[:length])
        self._buffer = rest[length:]

    def connection_lost(self, error: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error or ConnectionError("the broker closed the connection"))

    async def post(self, path: str, body: bytes) -> bytes:
        assert self._transport is not None
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"POST %b HTTP/1.1\r\nhost: b\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(body), body)
        )
        return await self._reply

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(port: int) -> Connection:
    _, protocol = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return protocol


def tasks(count: int) -> bytes:
    task = {"capability": "work", "payload": {"data": "x" * PAYLOAD_BYTES}}
    return json.dumps({"tasks": [task] * count}).encode()


def lease(worker: int, call: int, slots: int, wait: float = 0.0) -> bytes:
    return json.dumps(
        {
            "worker": {"pod_uid": f"pod-{worker}", "incarnation": "1"},
            "capabilities": ["work"],
            "slots": slots,
            "free_slots": slots,
            "attempt_id": f"a{call}",
            "wait_seconds": wait,
        }
    ).encode()


def acks(reply: bytes) -> tuple[int, bytes]:
    tokens = [lease["token"] for lease in json.loads(reply)["leases"]]
    return len(tokens), json.dumps({"acks": [{"token": token} for token in tokens]}).encode()


async def lifecycles(port: int, workers: int, batch: int, seconds: float) -> tuple[float, int]:
    """Tasks per second that went through enqueue, lease and ack, and how many did."""
    done = 0
    until = time.perf_counter() + seconds

    async def run(worker: int) -> None:
        nonlocal done
        connection = await connect(port)
        body = tasks(batch)
        call = 0
        while time.perf_counter() < until:
            await connection.post(f"{NAMESPACE}/tasks", body)
            call += 1
            count, settle = acks(await connection.post(f"{NAMESPACE}/leases", lease(worker, call, batch, 1.0)))
            if count:
                await connection.post(f"{NAMESPACE}/leases/ack", settle)
                done += count
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(run(worker) for worker in range(workers)))
    return done / (time.perf_counter() - started), done


async def enqueue(port: int, connections: int, seconds: float) -> tuple[float, list[float]]:
    """Requests per second of one task each, and the latency of each in milliseconds."""
    latencies: list[float] = []
    until = time.perf_counter() + seconds

    async def run() -> None:
        connection = await connect(port)
        body = tasks(1)
        while (before := time.perf_counter()) < until:
            await connection.post(f"{NAMESPACE}/tasks", body)
            latencies.append((time.perf_counter() - before) * 1000)
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(connections)))
    return len(latencies) / (time.perf_counter() - started), sorted(latencies)


async def pickups(port: int, count: int) -> list[float]:
    """Milliseconds from sending a task to the reply of the parked lease call of an idle worker."""
    producer, worker = await connect(port), await connect(port)
    latencies = []
    for call in range(count):
        parked = asyncio.ensure_future(worker.post(f"{NAMESPACE}/leases", lease(9999, call, 1, 30.0)))
        await asyncio.sleep(0.005)
        before = time.perf_counter()
        await producer.post(f"{NAMESPACE}/tasks", tasks(1))
        _, settle = acks(await parked)
        latencies.append((time.perf_counter() - before) * 1000)
        await worker.post(f"{NAMESPACE}/leases/ack", settle)
    producer.close()
    worker.close()
    return sorted(latencies)


def at(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(broker: BrokerProcess, seconds: float, report: Callable[..., None]) -> None:
    port = broker.port
    for name, workers, batch in (("batched", 8, BATCH), ("single", 32, 1)):
        used = cpu_seconds(broker.pid)
        rate, done = await lifecycles(port, workers, batch, seconds)
        used = cpu_seconds(broker.pid) - used
        report(f"lifecycle_{name}_per_s", rate, "1/s", batch=batch, workers=workers)
        report(f"lifecycle_{name}_cpu_us", used / max(1, done) * 1e6, "us", batch=batch, workers=workers)
    latencies = await pickups(port, 300)
    report("pickup_p50_ms", at(latencies, 0.5), "ms")
    report("pickup_p99_ms", at(latencies, 0.99), "ms")
    for connections in (1, 8, 64):
        rate, latencies = await enqueue(port, connections, seconds)
        report(f"enqueue_per_s_{connections}", rate, "1/s", connections=connections)
        report(f"enqueue_p50_ms_{connections}", at(latencies, 0.5), "ms", connections=connections)
        report(f"enqueue_p99_ms_{connections}", at(latencies, 0.99), "ms", connections=connections)


def http_parser() -> str:
    return AutoHTTPProtocol.__module__.rpartition(".")[2].removesuffix("_impl")


async def run(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=arguments.data) as folder:
        capabilities = Path(folder) / "capabilities.json"
        capabilities.write_text('{"default": [{"name": "work", "max_depth": 10000000}]}')
        args = ["--capabilities-file", str(capabilities), "--log-level", "warning"]
        with BrokerProcess(Path(folder), memory=arguments.memory, args=args) as broker:
            conditions = {
                "cores": os.cpu_count(),
                "load_1m_before": round(os.getloadavg()[0], 1),
                "python": platform.python_version(),
                "store": "memory" if arguments.memory else f"sqlite {apsw.sqlite_lib_version()} synchronous=FULL",
                "http": http_parser(),
                "payload_bytes": PAYLOAD_BYTES,
                "seconds": arguments.seconds,
            }

            def report(metric: str, value: float, unit: str, **more: Any) -> None:
                line = {"bench": "broker", "metric": metric, "value": round(value, 3), "unit": unit}
                print(json.dumps({**line, "conditions": {**conditions, **more}}), flush=True)

            await measure(broker, arguments.seconds, report)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--data", help="folder on the disk to measure (default: the temporary folder)")
    parser.add_argument("--memory", action="store_true", help="without a disk, to see what the rest costs")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
