"""A program of ours that says on standard output when it listens, as a process that a test may do anything to.

The broker and the operator both print one `{"listening": ...}` line when they serve; what a test does with them is
the same too: start, kill, end, pause, start again, and read the log of all starts.
"""

import json
import os
import selectors
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

_START_SECONDS = 60.0


class StartError(Exception):
    """The program ended, or said nothing, before it listened; carries its exit code and standard error."""

    def __init__(self, message: str, exit_code: int | None, log: str) -> None:
        super().__init__(f"{message}\n{log}")
        self.exit_code = exit_code
        self.log = log


class ServerProcess(ABC):
    """One such process. Every start writes to the same log. A context manager: at the end it is stopped."""

    noun: ClassVar[str]
    """What a failure calls it; also the name of its log."""
    start_error: ClassVar[type[StartError]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self) -> list[str]:
        """The command line of the next start."""

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """What the next start sets beside the inherited variables; none of ours is inherited."""

    @abstractmethod
    def listens(self, where: Mapping[str, Any]) -> None:
        """Take in where the process said that it listens."""

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
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self) -> Self:
        """Start it and return once it listens. Raises the class's `start_error` with its output."""
        if self.alive:
            raise RuntimeError(f"this {self.noun} is already running")
        self._close_pipe()
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LEADSMAN_")}
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**inherited, **self.environment()},
            )
        self.listens(self._await_listening(self._process))
        return self

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has taken it away."""
        process = self._running()
        process.kill()
        process.wait()

    def terminate(self, seconds: float = 60.0) -> int:
        """SIGTERM; return the exit code. Raises subprocess.TimeoutExpired when it does not end in time."""
        process = self._running()
        process.terminate()
        return process.wait(seconds)

    def wait(self, seconds: float = 60.0) -> int:
        """Wait until it ends by itself and return the exit code."""
        return self._running().wait(seconds)

    def restart(self) -> Self:
        """Kill it if it runs, and start it again."""
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
        self._close_pipe()

    @property
    def _log_path(self) -> Path:
        return self.folder / f"{self.noun}.log"

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError(f"this {self.noun} was not started")
        return self._process

    def _close_pipe(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def _await_listening(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(_START_SECONDS):
                self.close()
                raise self.start_error(f"the {self.noun} did not say that it listens", None, self.log)
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._close_pipe()
            raise self.start_error(f"the {self.noun} ended with exit code {code}", code, self.log)
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
