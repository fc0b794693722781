"""Processes that the harness starts, and the proof of identity without which it never ends one.

A pid alone proves nothing: numbers are used again. A process is ours when its pid, its start time
and the kernel's boot id are those recorded, or when its environment carries the run's mark.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import ClusterError
from .waiting import wait_for

MARK = "LEADSMAN_CLUSTER_RUN"
_PROC = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """One process, told apart from any later process with the same number."""

    name: str
    pid: int
    started: str
    boot: str

    @classmethod
    def of(cls, name: str, pid: int) -> "Identity":
        """Take the identity of a living process."""
        return cls(name=name, pid=pid, started=start_time(pid) or "", boot=boot_id())

    def alive(self) -> bool:
        """Tell whether this very process still runs (a zombie does not)."""
        return bool(self.started) and boot_id() == self.boot and start_time(self.pid) == self.started

    def as_dict(self) -> dict[str, str | int]:
        """Return the form kept in a manifest."""
        return asdict(self)


def boot_id() -> str:
    """Return a value that changes when the machine starts anew ("" where the system has none)."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """Return when the process began, in the system's own unit, or None when it is gone or a zombie."""
    if _PROC.joinpath("self/stat").exists():
        try:
            line = (_PROC / str(pid) / "stat").read_text()
        except OSError:
            return None
        fields = line.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return None if not shown or shown.startswith("Z") else shown.partition(" ")[2]


def children(pid: int) -> list[int]:
    """Return the direct children of a process (empty when it is gone)."""
    try:
        return [int(word) for word in (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except OSError:
        return []


def marked(run_id: str) -> list[Identity]:
    """Return the processes whose environment says that this run started them."""
    wanted = f"{MARK}={run_id}".encode()
    found = []
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            identity = Identity.of("marked", int(entry.name))
            if identity.started:
                found.append(identity)
    return found


def end(identities: Iterable[Identity], *, grace_seconds: float = 0.0) -> None:
    """End these processes, politely first when a grace is given; return when all are gone."""
    left = [identity for identity in identities if identity.alive()]
    if grace_seconds:
        _signal(left, signal.SIGTERM)
        try:
            wait_for("processes to end", lambda: _all_gone(left), seconds=grace_seconds, every_seconds=0.02)
        except ClusterError:
            left = [identity for identity in left if identity.alive()]
        else:
            return
    _signal(left, signal.SIGKILL)
    wait_for(
        "killed processes to end",
        lambda: _all_gone(left),
        seconds=20,
        every_seconds=0.02,
        evidence=lambda: ", ".join(f"{one.name} (pid {one.pid})" for one in left if one.alive()),
    )


def _all_gone(identities: Sequence[Identity]) -> bool:
    return not any(identity.alive() for identity in identities)


def _signal(identities: Iterable[Identity], number: signal.Signals) -> None:
    for identity in identities:
        if identity.alive():
            try:
                os.kill(identity.pid, number)
            except ProcessLookupError:
                continue


def tied(command: Sequence[str]) -> list[str]:
    """Return the command wrapped so that the kernel kills it when this process dies (Linux)."""
    if sys.platform == "linux" and shutil.which("setpriv"):
        return ["setpriv", "--pdeathsig", "KILL", "--", *command]
    return list(command)


@dataclass
class Component:
    """One long-running program of the cluster: can be stopped, frozen and started again by a test."""

    name: str
    command: Sequence[str]
    log: Path
    run_id: str
    detached: bool
    niceness: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> Identity:
        """Start the program in a session of its own; without ``detached`` it dies with this process."""
        command = list(self.command) if self.detached else tied(self.command)
        environment = {**os.environ, MARK: self.run_id}
        # The cluster's own programs take every address from their flags.
        environment.pop("KUBECONFIG", None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        return Identity.of(self.name, self._process.pid)

    @property
    def pid(self) -> int:
        """The program's pid as this process sees it."""
        if self._process is None:
            raise ClusterError(f"{self.name} was not started by this process")
        return self._process.pid

    def exited(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return None if self._process is None else self._process.poll()

    def pause(self) -> None:
        """Freeze the program (SIGSTOP): its peers see a stall, not a crash."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen program go on."""
        self._send(signal.SIGCONT)

    def stop(self, *, grace_seconds: float = 10.0) -> None:
        """End the program and whatever it wraps; kill it when the grace is over."""
        if self._process is None:
            return
        self._send(signal.SIGCONT)
        self._send(signal.SIGTERM)
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)
            self._process.wait(20)

    def kill(self) -> None:
        """End the program as a crash would: no grace, no farewell."""
        if self._process is not None:
            self._send(signal.SIGKILL)
            self._process.wait(20)

    def reap(self) -> None:
        """Collect the exit status of a program that was ended by other means."""
        if self._process is not None:
            self._process.wait(20)

    def tail(self, lines: int = 25) -> str:
        """Return the end of the log, for messages."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return f"[{self.name} wrote no log]"
        return f"[end of {self.log}]\n" + "\n".join(text.splitlines()[-lines:])

    def _send(self, number: signal.Signals) -> None:
        # nsenter stays in front of its child and hands no signal on.
        process = self._process
        if process is None or process.poll() is not None:
            return
        wrapped = children(process.pid) if Path(self.command[0]).name == "nsenter" else []
        for pid in wrapped or [process.pid]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
