"""`leadsman dev` as a user runs it: a process in a folder with YAML and handlers."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from leadsman import SyncClient

SECONDS = 60.0

POOLS = """\
apiVersion: leadsman.dev/v1alpha1
kind: Capability
metadata: {name: browser}
spec: {lease: {seconds: 5}}
---
apiVersion: leadsman.dev/v1alpha1
kind: WorkerPool
metadata: {name: browser}
spec:
  maxReplicas: 20
  image: registry.example/agents:1
  scaling: {targetTasksPerSlot: 1, scaleIn: {idleSeconds: 1}}
"""

HANDLERS = """\
import os
from leadsman import App

app = App()

@app.task("browser")
def run(ctx):
    return {"answer": 1, "pod": os.environ["LEADSMAN_POD_NAME"]}
"""


class Dev:
    """One run; `out` is what it has printed so far."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self.url = ""

    @property
    def out(self) -> str:
        return (self.folder / "out.txt").read_text()

    def client(self) -> SyncClient:
        return SyncClient(self.url, namespace="default")

    def until(self, check: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not check():
            assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}\n{self.out}"
            assert self.process.poll() is None, f"ended while waiting: {what}\n{self.out}"
            time.sleep(0.05)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)


def begin(folder: Path, *arguments: str, out: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """Start it and wait for nothing."""
    command = [sys.executable, "-m", "leadsman.cli", "dev", "-f", "pools.yaml", "--port", "0", *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith("LEADSMAN_")}
    return subprocess.Popen(command, cwd=folder, env={**env, "PYTHONPATH": str(folder)}, stdout=out, stderr=out)


@contextmanager
def dev(folder: Path, *arguments: str) -> Iterator[Dev]:
    """Run it until the block ends."""
    with (folder / "out.txt").open("wb") as out:
        process = begin(folder, *arguments, out=out)
    run = Dev(folder, process)
    try:
        run.until(lambda: re.search(r"^submit ", run.out, re.MULTILINE), "it listens")
        run.url = re.search(r"^broker +(\S+)", run.out, re.MULTILINE)[1]
        yield run
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                process.wait(SECONDS)
