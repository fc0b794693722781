"""/readyz and /livez for the kubelet and /metrics, from threads that a blocked handler cannot stop."""

import contextlib
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from leadsman.errors import ConfigurationError
from leadsman.worker.metrics import CONTENT_TYPE as METRICS_TYPE
from leadsman.worker.standing import Standing

_READ_SECONDS = 5.0


class HealthServer:
    """Readiness is false while connecting, fenced or draining; liveness while the heartbeat thread is gone."""

    def __init__(
        self, port: int, standing: Standing, alive: Callable[[], bool], metrics: Callable[[], str]
    ) -> None:
        sources = {"standing": standing, "alive": staticmethod(alive), "metrics": staticmethod(metrics)}
        handler = type("Handler", (_Handler,), sources)
        try:
            self._server = _Server(port, handler)
        except OSError as error:
            raise ConfigurationError(
                f"the health server cannot listen on port {port} ({error.strerror or error}); "
                "choose another with LEADSMAN_HEALTH_PORT or --health-port"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="leadsman-health", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        dual = socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if dual else socket.AF_INET
        super().__init__(("", port), handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # A container that restarts in its pod finds the probes' last connections still in TIME_WAIT on this port.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a prober that hung up is no event of this worker."""


class _Handler(BaseHTTPRequestHandler):
    standing: Standing
    alive: Callable[[], bool]
    metrics: Callable[[], str]
    timeout = _READ_SECONDS

    def do_GET(self) -> None:
        if self.path == "/readyz":
            self._answer(self.standing.ready, self.standing.why_not_ready)
        elif self.path == "/livez":
            self._answer(self.alive(), "the heartbeat thread is gone")
        elif self.path == "/metrics":
            self._send(200, self.metrics(), METRICS_TYPE)
        else:
            self._send(404, "not found\n")

    def _answer(self, good: bool, why: str) -> None:
        self._send(200 if good else 503, f"{'ok' if good else why}\n")

    def _send(self, status: int, text: str, content_type: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        with contextlib.suppress(OSError):
            self.send_response_only(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Say nothing: the kubelet asks every second."""
