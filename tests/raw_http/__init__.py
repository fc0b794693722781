"""HTTP/1.1 as bytes: what a caller sends in which pieces, and what comes back in which order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from broker_process import Reply

_SECONDS = 60


class RawConnection:
    """One connection, on which the test chooses every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *requests: bytes) -> None:
        """Send bytes in one piece."""
        self.writer.write(b"".join(requests))

    async def head(self) -> Reply:
        """Read a head alone; names of headers are in lower case."""
        async with asyncio.timeout(_SECONDS):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        return Reply(int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), b"")

    async def reply(self) -> Reply:
        """Read one reply."""
        head = await self.head()
        async with asyncio.timeout(_SECONDS):
            body = await self.reader.readexactly(int(head.headers["content-length"]))
        return replace(head, body=body)

    async def ask(self, *requests: bytes) -> Reply:
        """Send bytes in one piece and read one reply."""
        self.send(*requests)
        return await self.reply()

    async def end(self) -> bytes:
        """Read until the other side closes."""
        async with asyncio.timeout(_SECONDS):
            return await self.reader.read()


@contextlib.asynccontextmanager
async def raw_connection(port: int, **options: Any) -> AsyncIterator[RawConnection]:
    """Connect to a port of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def raw_request(
    path: str, *headers: str, method: str = "GET", body: bytes = b"", version: str = "1.1", chunks: int = 0
) -> bytes:
    """Return a request; `chunks`: its body in so many, in place of its length."""
    lines = [f"{method} {path} HTTP/{version}", "host: b", *headers]
    lines.append("transfer-encoding: chunked" if chunks else f"content-length: {len(body)}")
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    if not chunks:
        return head + body
    size = len(body) // chunks + 1
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
