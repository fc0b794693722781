"""One `leadsman worker` process and what a test may do to it."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker_process import eventually

from .journal import Journal, whole_lines

_TESTS = Path(__file__).resolve().parents[1]


class WorkerProcess:
    """A worker that serves handlers of `worker_process.agents`."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        broker_url: str,
        *,
        capabilities: Sequence[str],
        slots: int = 1,
        pod_uid: str | None = None,
        drain_seconds: float = 30.0,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        target: str = "worker_process.agents:app",
        prefix: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / "worker.log"
        self.pod_uid = pod_uid or str(uuid.uuid4())
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LEADSMAN_")}
        environment |= {
            "AGENTS_JOURNAL": str(journal.path),
            "PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "LEADSMAN_BROKER_URL": broker_url,
            "LEADSMAN_NAMESPACE": os.environ.get("LEADSMAN_NAMESPACE", "default"),
            "LEADSMAN_CAPABILITIES": ",".join(capabilities),
            "LEADSMAN_SLOTS": str(slots),
            "LEADSMAN_POD_UID": self.pod_uid,
            "LEADSMAN_DRAIN_SECONDS": str(drain_seconds),
            "LEADSMAN_HEALTH_PORT": "0",
        }
        command = [*prefix, sys.executable, "-m", "leadsman.cli", "worker", target, *args]
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment | dict(env or {}), cwd=folder
            )

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """All that it wrote."""
        return self.log_path.read_text(errors="replace")

    def records(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return its structured log lines."""
        found = [json.loads(line) for line in whole_lines(self.log) if line.startswith("{")]
        return [record for record in found if event in {None, record.get("event")}]

    def connected(self) -> "WorkerProcess":
        """Wait until it is ready."""
        eventually(lambda: self.health("/readyz") == 200, what=f"a ready worker; its log:\n{self.log}")
        return self

    @property
    def health_port(self) -> int:
        """Where its health server listens."""
        started = eventually(
            lambda: self.records("the worker runs") or not self.alive, what="the worker's first line"
        )
        assert started is not True, f"the worker ended:\n{self.log}"
        port: int = started[0]["health_port"]
        return port

    def health(self, path: str) -> int:
        """Return the status of a health check; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}", timeout=60) as reply:
                status: int = reply.status
                return status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has taken it away."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP: it keeps its sockets and does nothing."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def wait(self, seconds: float = 60.0) -> int:
        """Wait until it ends by itself; return the exit code."""
        return self.process.wait(seconds)

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
