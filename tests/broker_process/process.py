"""One `leadsman-broker serve` process and what a test may do to it."""

import contextlib
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_FIRST_PORT, _LAST_PORT = 10_000, 30_000  # below the range the kernel hands out for outgoing connections


class BrokerStartError(Exception):
    """The broker ended, or said nothing, before it listened; carries its exit code and standard error."""

    def __init__(self, message: str, exit_code: int | None, log: str) -> None:
        super().__init__(f"{message}\n{log}")
        self.exit_code = exit_code
        self.log = log


def free_port() -> int:
    """A port nobody listens on and that no outgoing connection is given while a broker is down."""
    while True:
        port = random.randint(_FIRST_PORT, _LAST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((_HOST, port))
            return port


class BrokerProcess:
    """A broker with durable state in `folder`/data (or in memory), reached at `url`.

    The same ports are used by every start, so that clients find it again after `restart()`. A context manager: at
    the end it is stopped, whatever state it is in.
    """

    def __init__(
        self,
        folder: Path,
        *,
        memory: bool = False,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        auth: str = "none",
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.memory = memory
        self.args = list(args)
        self.auth = auth
        self.env = dict(env or {})
        self.port = free_port()
        self.ops_port = free_port()
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        """The API's address."""
        return f"http://{_HOST}:{self.port}"

    @property
    def ops_url(self) -> str:
        """Where /metrics, /livez and /readyz are."""
        return f"http://{_HOST}:{self.ops_port}"

    @property
    def pid(self) -> int:
        """The running process."""
        return self._running().pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """All that every start so far wrote to standard error."""
        path = self.folder / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def log_records(self) -> list[dict[str, Any]]:
        """The structured log lines."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def command(self) -> list[str]:
        """The command line of the next start."""
        where = ["--memory"] if self.memory else ["--data", str(self.data)]
        return [
            *(sys.executable, "-m", "leadsman_broker.cli", "serve"),
            *("--host", _HOST, "--port", str(self.port), "--ops-port", str(self.ops_port)),
            *where,
            *("--auth", self.auth),
            *self.args,
        ]

    def start(self) -> Self:
        """Start it and return once it listens and is ready. Raises BrokerStartError with its output."""
        if self.alive:
            raise RuntimeError("this broker is already running")
        self._close_pipes()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LEADSMAN_")} | self.env
        with (self.folder / "broker.log").open("a") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        listening = self._await_listening(self._process)
        self.port, self.ops_port = listening["port"], listening["ops_port"]
        return self

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has taken it away."""
        process = self._running()
        process.kill()
        process.wait()

    def terminate(self, seconds: float = 20.0) -> int:
        """SIGTERM; return the exit code. Raises subprocess.TimeoutExpired when it does not end in time."""
        process = self._running()
        process.terminate()
        return process.wait(seconds)

    def wait(self, seconds: float = 20.0) -> int:
        """Wait until it ends by itself and return the exit code."""
        return self._running().wait(seconds)

    def restart(self) -> Self:
        """Kill it if it runs, and start it again on the same ports with the same data."""
        if self.alive:
            self.kill()
        return self.start()

    def pause(self) -> None:
        """SIGSTOP: it holds its sockets and does nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        self._close_pipes()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("this broker was not started")
        return self._process

    def _close_pipes(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def _await_listening(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        deadline = time.monotonic() + _START_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                self.close()
                raise BrokerStartError("the broker did not say that it listens", None, self.log)
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._close_pipes()
            raise BrokerStartError(f"the broker ended with exit code {code}", code, self.log)
        found: dict[str, Any] = json.loads(line)["listening"]
        return found

    def __enter__(self) -> Self:
        return self if self.alive else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
