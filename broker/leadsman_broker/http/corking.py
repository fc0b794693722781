"""Replies that leave in one send: uvicorn writes the head and the body of each apart.

Two sends wake the client twice, for the head alone the first time, and each is a call of the kernel. On two cores
that clients share with the broker this cost a third of the throughput of small calls.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class CorkedTransport:
    """A transport that holds a head back until what follows it, at most until the end of the loop's turn."""

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send, after the head that was held back and together with it."""
        if self._head:
            data = self._head + data
            self._head = b""
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._send)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send what is held back, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


class CorkedProtocol(HttpToolsProtocol):
    """uvicorn's protocol over such a transport."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a connection."""
        super().connection_made(CorkedTransport(transport))  # type: ignore[arg-type]
