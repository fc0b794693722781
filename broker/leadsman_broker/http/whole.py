"""Requests and replies in one piece: the way of nearly all of them, made short.

uvicorn's own way from a head to the application and back takes a message for each part, in any order that an
application may think of. A request whose path is as it stands is handed over with less ado here, and a reply that
is whole leaves in one message and one send. All else goes uvicorn's way.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from leadsman_broker.http.corking import CorkedProtocol

WHOLE_REPLY = "leadsman.http.reply"
"""ASGI extension, and the type of its one message: `status`, `content_type` and `body` of the whole reply."""

CLOSE = (b"connection", b"close")

_EXTENSIONS: dict[str, dict[object, object]] = {WHOLE_REPLY: {}}
_SPECIAL = (b"?", b"%", b"#")


def is_usual(parser: Any, url: bytes) -> bool:
    """Whether a request's path is as it stands, and its version the usual one."""
    plain = url.startswith(b"/") and url.isascii() and not any(mark in url for mark in _SPECIAL)
    return plain and parser.get_http_version() == "1.1" and not parser.should_upgrade()


def head_of(status: int, fields: Iterable[tuple[bytes, bytes]], content_type: bytes, length: int) -> bytes:
    """Return the head of a whole reply."""
    lines = b"".join([b"%b: %b\r\n" % field for field in fields])
    return b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (
        STATUS_LINE[status],
        lines,
        content_type,
        length,
    )


class WholeCycle(RequestResponseCycle):
    """A request that may be answered by one message."""

    async def send(self, message: Any) -> None:
        """Send a whole reply, or a part of one."""
        if message["type"] != WHOLE_REPLY:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        body = message["body"]
        fields = self.default_headers if self.keep_alive else [*self.default_headers, CLOSE]
        head = head_of(message["status"], fields, message["content_type"], len(body))
        self.waiting_for_100_continue = False
        self.response_started = self.response_complete = True
        self.transport.write(head if self.scope["method"] == "HEAD" else head + body)
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class WholeProtocol(CorkedProtocol):
    """uvicorn's protocol with the short way."""

    _running: RequestResponseCycle | None = None
    """The request that the application has; `cycle` is the last one of those that the caller did not wait for."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that the application has, also when others came behind it."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Hand a request to the application; its body may still be under way."""
        parser, url = self.parser, self.url
        if not is_usual(parser, url):
            super().on_headers_complete()
            return
        scope: Any = self.scope
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"] = url.decode("ascii")
        scope["raw_path"] = url
        scope["query_string"] = b""
        scope["extensions"] = _EXTENSIONS
        before = self.cycle
        self.cycle = WholeCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:  # the caller did not wait for the reply to the one before
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
