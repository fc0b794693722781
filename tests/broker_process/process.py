"""One `leadsman-broker serve` process and what a test may do to it."""

import fcntl
import json
import random
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from server_process import ServerProcess, StartError

_HOST = "127.0.0.1"
_FIRST_PORT, _LAST_PORT = 10_000, 30_000  # below the range the kernel hands out for outgoing connections
_RESERVED = Path(tempfile.gettempdir()) / "leadsman-test-ports"
_KEPT: list[IO[str]] = []


class BrokerStartError(StartError):
    """The broker ended, or said nothing, before it listened."""


def free_port() -> int:
    """A port nobody listens on and that no outgoing connection is given while a broker is down.

    It stays this process's own until it ends, also before a broker listens on it and while one is down: test
    processes beside this one choose among the same numbers.
    """
    _RESERVED.mkdir(exist_ok=True)
    while True:
        port = random.randint(_FIRST_PORT, _LAST_PORT)
        reservation = (_RESERVED / str(port)).open("w")
        try:
            fcntl.flock(reservation, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind((_HOST, port))
        except OSError:
            reservation.close()
        else:
            _KEPT.append(reservation)
            return port


class BrokerProcess(ServerProcess):
    """A broker with durable state in `folder`/data (or in memory), reached at `url`.

    The same ports are used by every start, so that clients find it again after `restart()`. A context manager: at
    the end it is stopped, whatever state it is in.
    """

    noun = "broker"
    start_error = BrokerStartError

    def __init__(
        self,
        folder: Path,
        *,
        memory: bool = False,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        auth: str = "none",
    ) -> None:
        super().__init__(folder)
        self.data = folder / "data"
        self.memory = memory
        self.args = list(args)
        self.auth = auth
        self.env = dict(env or {})
        self.port = free_port()
        self.ops_port = free_port()

    @property
    def url(self) -> str:
        """The API's address."""
        return f"http://{_HOST}:{self.port}"

    @property
    def ops_url(self) -> str:
        """Where /metrics, /livez and /readyz are."""
        return f"http://{_HOST}:{self.ops_port}"

    def log_records(self) -> list[dict[str, Any]]:
        """The structured log lines."""
        whole = self.log[: self.log.rfind("\n") + 1]  # who reads meanwhile may see half of the last line
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

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

    def environment(self) -> Mapping[str, str]:
        """What a test set for it."""
        return self.env

    def listens(self, where: Mapping[str, Any]) -> None:
        """Keep the ports for the next start."""
        self.port, self.ops_port = where["port"], where["ops_port"]
