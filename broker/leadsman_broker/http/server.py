"""uvicorn as a library: sockets, signals and logging belong to the process, not to it."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from leadsman_broker.http.direct import DirectProtocol

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 120
"""Longer than between two heartbeats, so that a worker keeps its connection."""
_GRACEFUL_SECONDS = 5
_MAX_HEAD_BYTES = 65_536


class BindError(Exception):
    """An address cannot be listened on; the message is one line that says why."""


class Server(uvicorn.Server):
    """One listening application, which leaves signals alone."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=DirectProtocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_GRACEFUL_SECONDS,
                h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            )
        )
        self._listener = listener

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield

    async def run_until_stopped(self) -> None:
        """Serve until `stop`, then until the answers in hand are sent."""
        await self.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Accept nothing more, finish what is in hand and return from `run_until_stopped`."""
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen; port 0 takes a free one. Raises BindError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        dual = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
    except OSError as error:
        raise BindError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with --port, "
            "--ops-port or --host"
        ) from error
