"""A network that loses things: a TCP proxy that cuts chosen calls, before the request or before the reply."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Literal

Cut = Literal["request", "reply"]

_HOST = "127.0.0.1"


class CuttingProxy:
    """Forwards HTTP/1.1 connections to a broker; `cut` makes the next calls of one path fail."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server((_HOST, 0))
        self._lock = threading.Lock()
        self._cuts: dict[tuple[bytes, Cut], int] = {}
        self._done: dict[tuple[bytes, Cut], int] = {}
        self._sockets: list[socket.socket] = []
        self._closed = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where clients go."""
        return f"http://{_HOST}:{self._listener.getsockname()[1]}"

    def cut(self, path: str, what: Cut, times: int = 1) -> None:
        """Break the connection of the next `times` calls whose path ends so.

        `request`: the broker never sees the call. `reply`: the broker answers, and the answer is lost.
        """
        with self._lock:
            self._cuts[path.encode(), what] = times
            self._done[path.encode(), what] = 0

    def cuts_done(self, path: str, what: Cut) -> int:
        """How many calls were cut so far."""
        with self._lock:
            return self._done.get((path.encode(), what), 0)

    def close(self) -> None:
        """Stop, and break every connection."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            _break(each)
        self._thread.join()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            try:
                server = socket.create_connection((_HOST, self._target))
            except OSError:  # the broker is away
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        try:
            for path, request in _messages(client):
                if self._take(path, "request"):
                    break
                server.sendall(request)
                reply = next(_messages(server), None)
                if reply is None or self._take(path, "reply"):
                    break
                client.sendall(reply[1])
        except OSError:
            pass
        finally:
            _break(client)
            _break(server)

    def _take(self, path: bytes, what: Cut) -> bool:
        with self._lock:
            for (ending, kind), left in self._cuts.items():
                if kind == what and left and path.endswith(ending):
                    self._cuts[ending, kind] = left - 1
                    self._done[ending, kind] += 1
                    return True
        return False


def _messages(connection: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Split a stream into whole HTTP messages with a Content-Length; yields the request's path and the bytes."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = connection.recv(65_536)
            if not more:
                return
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        lengths = [
            line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        ]
        length = int(lengths[0]) if lengths else 0
        while len(rest) < length:
            more = connection.recv(65_536)
            if not more:
                return
            rest += more
        size = len(head) + 4 + length
        words = head.split(b" ")
        yield words[1].split(b"?")[0], (head + b"\r\n\r\n" + rest)[:size]
        data = rest[length:]


def _break(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
