"""A network between an operator and a server that can be cut: connections stay open and nothing comes through."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class Link:
    """Relays TCP from `port` of this computer to another port of it; a context manager.

    While it is cut, what was sent waits or is lost with its connection, as with a firewall that drops packets:
    nobody is told. New connections are accepted and stay silent.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def cut(self) -> None:
        """Let nothing through any more."""
        self._open.clear()

    def mend(self) -> None:
        """Let everything through again."""
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        try:
            await self._open.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._relay(reader, back))
                    both.create_task(self._relay(there, writer))
            except* OSError:
                pass
            finally:
                back.close()
        except (asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()
            self._relays.discard(task)

    async def _relay(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(_CHUNK):
            await self._open.wait()
            sink.write(chunk)
            await sink.drain()
        with contextlib.suppress(OSError):
            sink.write_eof() if sink.can_write_eof() else sink.close()
