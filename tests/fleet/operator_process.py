"""One `leadsman-operator run` process and what a test may do to it."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

_START_SECONDS = 60.0


class OperatorStartError(Exception):
    """The operator ended, or said nothing, before it listened; carries its log."""


class OperatorProcess:
    """An operator of some namespaces of one cluster. Every start writes to the same log.

    Without leader election unless asked: a test that restarts it would otherwise wait for the old lease to run out.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kubeconfig: Path,
        broker_url: str,
        namespaces: Sequence[str] = (),
        leader_election: bool = False,
        lease_namespace: str | None = None,
        program: str = "leadsman_operator.cli",
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.broker_url = broker_url
        self.namespaces = list(namespaces)
        self.leader_election = leader_election
        self.lease_namespace = lease_namespace
        self.program = program
        self.args = list(args)
        self.env = dict(env or {})
        self.ops_port: int | None = None
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def ops_url(self) -> str:
        """Where /metrics, /livez and /readyz are."""
        return f"http://127.0.0.1:{self.ops_port}"

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The running process."""
        return self._running().pid

    @property
    def log(self) -> str:
        """All that every start so far wrote to standard error."""
        path = self.folder / "operator.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def command(self) -> list[str]:
        """The command line of the next start."""
        command = [sys.executable, "-m", self.program, "run"]
        command += ["--broker-url", self.broker_url, "--ops-port", "0"]
        command += ["--leader-election" if self.leader_election else "--no-leader-election"]
        if self.lease_namespace:
            command += ["--lease-namespace", self.lease_namespace]
        for namespace in self.namespaces:
            command += ["--namespace", namespace]
        return command + self.args

    def start(self) -> Self:
        """Start it and return once it listens. Raises OperatorStartError with its log."""
        if self.alive:
            raise RuntimeError("this operator is already running")
        self._close_pipe()
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LEADSMAN_")}
        where = {"KUBECONFIG": str(self.kubeconfig), "PYTHONPATH": os.pathsep.join(sys.path)}
        environment = {**inherited, **where, **self.env}
        with (self.folder / "operator.log").open("a") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        self.ops_port = self._await_listening(self._process)["ops_port"]
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

    def restart(self) -> Self:
        """Kill it if it runs, and start it again."""
        if self.alive:
            self.kill()
        return self.start()

    def pause(self) -> None:
        """SIGSTOP: it holds its sockets and its lease, and does nothing."""
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

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("this operator was not started")
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
                raise OperatorStartError(f"the operator did not say that it listens\n{self.log}")
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._close_pipe()
            raise OperatorStartError(f"the operator ended with exit code {code}\n{self.log}")
        found: dict[str, Any] = json.loads(line)["listening"]
        return found
