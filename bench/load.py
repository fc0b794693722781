"""Raw HTTP/1.1 over asyncio, cheap enough that the broker is what is measured, and the loads made of it."""

import asyncio
import itertools
import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

HOST = "127.0.0.1"
NAMESPACE = "/v1/namespaces/default"
CAPABILITY = "work"
_PROBE_SECONDS = 0.002
_ATTEMPTS = itertools.count()


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

    async def enqueue(self, body: bytes) -> None:
        await self.post(f"{NAMESPACE}/tasks", body)

    async def lease(self, worker: int, slots: int, wait: float = 0.0) -> list[str]:
        """Lease tasks and return their tokens."""
        body = {
            "worker": {"pod_uid": f"pod-{worker}", "incarnation": "1"},
            "capabilities": [CAPABILITY],
            "slots": slots,
            "free_slots": slots,
            "attempt_id": f"a{next(_ATTEMPTS)}",
            "wait_seconds": wait,
        }
        reply = await self.post(f"{NAMESPACE}/leases", json.dumps(body).encode())
        return [lease["token"] for lease in json.loads(reply)["leases"]]

    async def ack(self, tokens: Iterable[str]) -> None:
        acks = json.dumps({"acks": [{"token": token} for token in tokens]}).encode()
        await self.post(f"{NAMESPACE}/leases/ack", acks)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(port: int) -> Connection:
    _, protocol = await asyncio.get_running_loop().create_connection(Connection, HOST, port)
    return protocol


async def connect_many(port: int, count: int) -> list[Connection]:
    """Open connections a few at a time, so that no listen queue runs over."""
    found: list[Connection] = []
    while len(found) < count:
        found += await asyncio.gather(*(connect(port) for _ in range(min(50, count - len(found)))))
    return found


def tasks(count: int, payload_bytes: int, tenants: Iterable[str] = ("",)) -> bytes:
    """Return an enqueue request; the tasks take the tenants in turn."""
    names = [*tenants]
    payload = {"data": "x" * payload_bytes}
    return json.dumps(
        {
            "tasks": [
                {"capability": CAPABILITY, "payload": payload, "tenant": names[number % len(names)]}
                for number in range(count)
            ]
        }
    ).encode()


class Rate(NamedTuple):
    """What a load came to."""

    per_second: float
    done: int
    client_cpu_us: float
    """Of this process, for each."""


async def _for(seconds: float, runs: Callable[[float], Iterable[Any]]) -> Rate:
    began, used = time.perf_counter(), time.process_time()
    done = sum(await asyncio.gather(*runs(began + seconds)))
    return Rate(done / (time.perf_counter() - began), done, (time.process_time() - used) / max(1, done) * 1_000_000)


async def lifecycles(port: int, workers: int, body: bytes, batch: int, seconds: float) -> Rate:
    """Enqueue, lease and ack batches, each worker on a connection of its own."""

    async def run(worker: int, until: float) -> int:
        connection = await connect(port)
        done = 0
        while time.perf_counter() < until:
            await connection.enqueue(body)
            tokens = await connection.lease(worker, batch, 1.0)
            if tokens:
                await connection.ack(tokens)
            done += len(tokens)
        connection.close()
        return done

    return await _for(seconds, lambda until: [run(worker, until) for worker in range(workers)])


async def dequeues(port: int, workers: int, body: bytes, batch: int, seconds: float) -> float:
    """Return the seconds that a lease call and its ack take for one task, at a depth that stays as it is."""
    until = time.perf_counter() + seconds

    async def run(worker: int) -> tuple[float, int]:
        connection = await connect(port)
        spent, done = 0.0, 0
        while time.perf_counter() < until:
            began = time.perf_counter()
            tokens = await connection.lease(worker, batch, 1.0)
            if tokens:
                await connection.ack(tokens)
            spent += time.perf_counter() - began
            done += len(tokens)
            await connection.enqueue(body)
        connection.close()
        return spent, done

    found = await asyncio.gather(*(run(worker) for worker in range(workers)))
    return sum(spent for spent, _ in found) / sum(done for _, done in found)


async def enqueues(port: int, connections: int, body: bytes, seconds: float) -> tuple[Rate, list[float]]:
    """Send one request after the other on each connection; also return the latencies in milliseconds, sorted."""
    latencies: list[float] = []

    async def run(connection: Connection, until: float) -> int:
        done = 0
        while (before := time.perf_counter()) < until:
            await connection.enqueue(body)
            latencies.append((time.perf_counter() - before) * 1000)
            done += 1
        connection.close()
        return done

    opened = await connect_many(port, connections)
    rate = await _for(seconds, lambda until: [run(connection, until) for connection in opened])
    return rate, sorted(latencies)


async def pickups(port: int, count: int, body: bytes, waiting: int = 1) -> list[float]:
    """Return milliseconds from sending a task to the reply of one of `waiting` parked workers, sorted."""
    producer = await connect(port)
    workers = await connect_many(port, waiting)
    calls: dict[asyncio.Future[list[str]], int] = {}

    def park(worker: int) -> None:
        calls[asyncio.ensure_future(workers[worker].lease(100_000 + worker, 1, 60.0))] = worker

    for worker in range(waiting):
        park(worker)
    await asyncio.sleep(0.005 * min(waiting, 200))
    latencies = []
    for _ in range(count):
        before = time.perf_counter()
        await producer.enqueue(body)
        ended, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for parked in ended:
            worker = calls.pop(parked)
            if tokens := parked.result():
                latencies.append((time.perf_counter() - before) * 1000)
                await workers[worker].ack(tokens)
            park(worker)
        await asyncio.sleep(0.005)
    for connection in (producer, *workers):
        connection.close()
    await asyncio.gather(*calls, return_exceptions=True)
    return sorted(latencies)


def at(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and all its threads so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Probe:
    """A process of its own that asks the broker's /livez all the time: whatever holds its loop holds the answer."""

    def __init__(self, ops_port: int) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_probe, args=(ops_port, theirs), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        self._ours.recv()
        return self

    def worst_ms(self) -> tuple[float, float]:
        """End it and return the longest answer and the 99.9th percentile in milliseconds."""
        self._ours.send(None)
        latencies: list[float] = self._ours.recv()
        return latencies[-1], at(latencies, 0.999)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ours.close()
        self._process.join()


def _probe(port: int, pipe: Pipe) -> None:
    latencies = []
    with socket.create_connection((HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipe.send(None)
        while not pipe.poll(_PROBE_SECONDS):
            before = time.perf_counter()
            connection.sendall(b"GET /livez HTTP/1.1\r\nhost: b\r\n\r\n")
            if not connection.recv(65_536):
                raise ConnectionError("the broker closed the connection")
            latencies.append((time.perf_counter() - before) * 1000)
    pipe.send(sorted(latencies))
