"""What other queues do on this machine with the same payload and the same durability: `make bench-peers`.

One JSON object a line, `peer_lifecycle_per_s`: a task put in, taken by a worker and marked done, each step on disk
before the next, 32 of them at a time, one call each. Ours is measured beside them in the same rounds, since what
counts is the ratio. Servers are Debian's, client libraries come from PyPI into a virtual environment of their own;
every server listens on a free loopback port, works in a temporary folder and ends with the run.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from broker_process import BrokerProcess, free_port
from figures import Figures
from load import CAPABILITY, HOST, lifecycles, tasks

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("arq==0.28.0", "procrastinate==3.10.0", "psycopg[binary]")
CONCURRENCY = 32
_POSTGRES = Path("/usr/lib/postgresql/15/bin")


class Peer(ABC):
    """One system, running."""

    name: str
    version: str
    durability: str
    client: str

    @abstractmethod
    def per_second(self, seconds: float, payload_bytes: int) -> float:
        """Return lifecycles a second."""


class Ours(Peer):
    name = "leadsman"
    durability = "SQLite write-ahead log, synchronous=FULL"
    client = "HTTP/1.1 over asyncio"

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        folder.mkdir()
        capabilities = folder / "capabilities.json"
        capabilities.write_text(json.dumps({"default": [{"name": CAPABILITY, "max_depth": 10_000_000}]}))
        args = ["--capabilities-file", str(capabilities), "--log-level", "warning"]
        self._broker = stack.enter_context(BrokerProcess(folder, args=args))
        self.version = f"this checkout, SQLite {apsw.sqlite_lib_version()}"

    def per_second(self, seconds: float, payload_bytes: int) -> float:
        body = tasks(1, payload_bytes)
        return uvloop.run(lifecycles(self._broker.port, CONCURRENCY, body, 1, seconds)).per_second


class OursBatched(Ours):
    name = "leadsman, batches of 50"

    def per_second(self, seconds: float, payload_bytes: int) -> float:
        body = tasks(50, payload_bytes)
        return uvloop.run(lifecycles(self._broker.port, CONCURRENCY, body, 50, seconds)).per_second


class Beanstalkd(Peer):
    name = "beanstalkd"
    durability = "binlog with fsync at every write (-f0)"
    client = "its protocol over asyncio"

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        folder.mkdir()
        program = debian("beanstalkd", "beanstalkd")
        self._port = free_port()
        command = [program, "-l", HOST, "-p", str(self._port), "-b", str(folder), "-f", "0"]
        stack.enter_context(server(command, self._port, folder))
        said = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stdout
        self.version = said.split()[-1]

    def per_second(self, seconds: float, payload_bytes: int) -> float:
        return uvloop.run(self._run(seconds, b"x" * payload_bytes))

    async def _run(self, seconds: float, payload: bytes) -> float:
        until = time.perf_counter() + seconds
        put = b"put 0 0 30 %d\r\n%b\r\n" % (len(payload), payload)

        async def worker() -> int:
            reader, writer = await asyncio.open_connection(HOST, self._port)
            done = 0
            while time.perf_counter() < until:
                writer.write(put)
                expect(await reader.readline(), b"INSERTED")
                writer.write(b"reserve\r\n")
                _, job, size = expect(await reader.readline(), b"RESERVED").split()
                await reader.readexactly(int(size) + 2)
                writer.write(b"delete %b\r\n" % job)
                expect(await reader.readline(), b"DELETED")
                done += 1
            writer.close()
            return done

        began = time.perf_counter()
        done = sum(await asyncio.gather(*(worker() for _ in range(CONCURRENCY))))
        return done / (time.perf_counter() - began)


class Redis(Peer):
    name = "redis + arq"
    durability = "append-only file, appendfsync always"
    client = "arq 0.28.0, worker in a process of its own, poll_delay 10 ms"

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        folder.mkdir()
        program = debian("redis-server", "redis-server")
        self._port = free_port()
        command = [program, "--bind", HOST, "--port", str(self._port), "--dir", str(folder), "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always"]
        stack.enter_context(server(command, self._port, folder))
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.version = said.partition("v=")[2].split()[0]

    def per_second(self, seconds: float, payload_bytes: int) -> float:
        return library("peer_arq.py", str(self._port), seconds, payload_bytes)


class Postgres(Peer):
    name = "postgresql + procrastinate"
    durability = "fsync=on, synchronous_commit=on"
    client = "procrastinate 3.10.0, worker in a process of its own"

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        debian("postgresql-15", str(_POSTGRES / "postgres"))
        folder.mkdir()
        shutil.chown(folder, "postgres")
        folder.parent.chmod(0o755)
        data = folder / "data"
        port = free_port()
        initdb = [str(_POSTGRES / "initdb"), "-D", str(data), "-A", "trust", "-U", "bench"]
        subprocess.run(initdb, check=True, user="postgres", cwd="/", stdout=subprocess.DEVNULL)
        command = [str(_POSTGRES / "postgres"), "-D", str(data), "-h", HOST, "-p", str(port)]
        command += ["-k", str(folder), "-c", "max_connections=200"]
        stack.enter_context(server(command, port, folder, user="postgres"))
        said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
        self.version = said.split()[2]
        self._where = f"host={HOST} port={port} user=bench dbname=postgres"

    def per_second(self, seconds: float, payload_bytes: int) -> float:
        return library("peer_procrastinate.py", self._where, seconds, payload_bytes)


PEERS: dict[str, type[Peer]] = {
    "leadsman": Ours,
    "leadsman-batched": OursBatched,
    "beanstalkd": Beanstalkd,
    "redis": Redis,
    "postgresql": Postgres,
}


def expect(line: bytes, word: bytes) -> bytes:
    if not line.startswith(word):
        raise RuntimeError(f"expected {word!r}, got {line!r}")
    return line


def debian(package: str, program: str) -> str:
    """Return the program's path, installed from Debian if it is not here."""
    found = shutil.which(program)
    if found is None:
        if os.geteuid() != 0:
            raise SystemExit(f"{program} is not installed: apt-get install {package}")
        # At run level 1 Debian does not start the service it installs.
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", package]):
            subprocess.run(["apt-get", *command], check=True, env=env, stdout=sys.stderr)
        found = shutil.which(program)
    if found is None:
        raise SystemExit(f"apt-get installed {package}, but there is no {program}")
    return found


@contextmanager
def server(command: list[str], port: int, folder: Path, user: str | None = None) -> Iterator[None]:
    """Run a server while the context lasts, its output in `folder`.log."""
    with folder.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd="/")
    try:
        until_listens(process, port, folder.with_suffix(".log"))
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_listens(process: subprocess.Popen[Any], port: int, log: Path) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{process.args!r} does not listen:\n{log.read_text()}") from None
            time.sleep(0.05)
        else:
            return


def environment() -> Path:
    """Return the interpreter of the virtual environment with the peers' client libraries, made if need be."""
    folder = ROOT / ".venv-peers"
    marker = folder / "libraries"
    python = folder / "bin" / "python"
    if not marker.exists() or marker.read_text().split() != [*LIBRARIES]:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *LIBRARIES], check=True)
        marker.write_text("\n".join(LIBRARIES))
    return python


def library(script: str, where: str, seconds: float, payload_bytes: int) -> float:
    """Run a client library's lifecycles in its own environment and return how many there were a second."""
    command = [str(environment()), str(ROOT / "bench" / script), where]
    command += [str(seconds), str(payload_bytes), str(CONCURRENCY)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(said)["per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="*", help=f"{', '.join(PEERS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="everyone in turn, so often; the median counts")
    parser.add_argument("--payload-bytes", type=int, default=256)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leadsman-peers-") as folder, ExitStack() as stack:
        names = arguments.peers or [*PEERS]
        peers = [PEERS[name](Path(folder) / name, stack) for name in names]
        found: dict[str, list[float]] = {peer.name: [] for peer in peers}
        for _ in range(arguments.rounds):
            for peer in peers:
                found[peer.name].append(peer.per_second(arguments.seconds, arguments.payload_bytes))
        ours = statistics.median(found.get(Ours.name, [0.0]))
        for peer in peers:
            median = statistics.median(found[peer.name])
            conditions = {
                "peer": peer.name,
                "version": peer.version,
                "durability": peer.durability,
                "client": peer.client,
                "rounds": [round(one) for one in found[peer.name]],
                "leadsman_times_as_fast": round(ours / median, 2),
                "concurrency": CONCURRENCY,
                "payload_bytes": arguments.payload_bytes,
                "seconds": arguments.seconds,
            }
            Figures("peers").report("peer_lifecycle_per_s", median, "1/s", **conditions)


if __name__ == "__main__":
    main()
