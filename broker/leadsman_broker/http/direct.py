"""Calls made by the protocol itself, when a request's head is there in one piece and has been seen before.

A worker or a producer sends the same few heads over and over; only the length in them changes. What the parser made
of one the first time holds for the next: neither is it parsed again, nor does its call need a task and the messages
of ASGI. Everything else goes uvicorn's way, on the same connection: a head for the first time, or in pieces, a
request without the usual form, and all that comes while such a request is under way.

Requests and their order stay what they are: while a call is under way, what comes after it waits as bytes.
"""

import asyncio
import time
from typing import Any, NamedTuple, cast

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from leadsman_broker.http.api import Api, DirectCall
from leadsman_broker.http.exchange import BODY_SECONDS, JSON_TYPE, Response, body_late, problem_response
from leadsman_broker.http.pending import Pending
from leadsman_broker.http.whole import CLOSE, WholeProtocol, head_of, is_usual

_END = b"\r\n\r\n"
_LENGTH = b"ength: "
"""Of content-length, in whatever case clients write its other letters."""
_MAX_DIGITS = 9
_MAX_HEAD_BYTES = 4096
_MAX_HEADS = 16
"""Heads that a connection remembers: a worker's calls, before and after its token was renewed."""


class _Split(NamedTuple):
    """A head without the digits of its length."""

    text: bytes
    length: int
    size: int


class _Rest:
    """A request with a known head, of which the rest is under way."""

    __slots__ = ("_found", "_missing", "call", "timer")

    def __init__(self, call: DirectCall, data: bytes, size: int, timer: asyncio.TimerHandle) -> None:
        self.call = call
        self.timer = timer
        self._found = [data]
        self._missing = size - len(data)

    def add(self, data: bytes) -> bytes:
        """Take in more; return all of it once it is there."""
        self._found.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return b""
        self.timer.cancel()
        return b"".join(self._found)


class DirectProtocol(WholeProtocol):
    """uvicorn's protocol with the direct way."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._api: Api | None = self.app if isinstance(self.app, Api) else None
        self._heads: dict[bytes, DirectCall] = {}
        self._new_head = b""
        """Not seen before, without its length; the parser has it now."""
        self._between = True
        """The parser has seen all of a request and nothing of the next."""
        self._call: DirectCall | None = None
        """Under way."""
        self._pending: Pending | None = None
        self._began = 0.0
        self._rest: _Rest | None = None
        """The beginning of a request that is not all there."""
        self._later: list[bytes] = []
        self._closing = False
        self._idle_since: float | None = None
        self._dated: object = None
        self._usual_head = b""

    # What comes in

    def data_received(self, data: bytes) -> None:
        """Take in what a caller sent."""
        self._idle_since = None
        if self._call is not None or self._later:
            self._hold(data)
            return
        if self._rest is not None:
            data = self._rest.add(data)
            if not data:
                return
            self._rest = None
        if not self._make_call(data):
            super().data_received(data)

    def _make_call(self, data: bytes) -> bool:
        """Begin the call that these bytes ask for; False: they are for the parser."""
        if not self._between or self._api is None or self.flow.write_paused or self._wire.is_closing():
            return False
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        split = _split(data)
        if split is None:
            return False
        call = self._heads.get(split.text)
        if call is None:
            self._new_head = split.text
            return False
        size = split.size + split.length
        if split.length > self._api.max_body_bytes:
            return False
        if len(data) < size:
            if not self._api.may_send(call):
                return False
            self._rest = _Rest(call, data, size, self.loop.call_later(BODY_SECONDS, self._give_up))
            return True
        began = time.perf_counter()
        pending = self._api.begin(call, data[split.size : size])
        if pending is None:
            return False
        self._began = began
        self._call = call
        if len(data) > size:
            self._hold(data[size:])
        if isinstance(pending, Response):
            self._reply(call, pending, parked=False)
        else:
            self._pending = pending
            pending.outcome.add_done_callback(self._ended)
        return True

    def _give_up(self) -> None:
        """Refuse a call whose body trickles."""
        if self._rest is not None:
            self._began = time.perf_counter() - BODY_SECONDS
            self._call = self._rest.call
            self._rest = None
            self._reply(self._call, problem_response(body_late()), parked=False)

    def _hold(self, data: bytes) -> None:
        """Keep what came while a call is under way; its caller sends no more before what is here was looked at."""
        self._later.append(data)
        if sum(map(len, self._later)) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def _go_on(self) -> None:
        """Take in what was kept."""
        data = b"".join(self._later)
        self._later.clear()
        if data and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(data)

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        self._between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Learn what a head means that may come again."""
        head, self._new_head = self._new_head, b""
        if head and self._api is not None:
            self._learn(self._api, head)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that a request is there."""
        self._between = True
        super().on_message_complete()

    def _learn(self, api: Api, head: bytes) -> None:
        parser = self.parser
        at = head.find(_LENGTH) + len(_LENGTH)
        if head[head.rfind(b"\n", 0, at) + 1 : at].lower() != b"content-length: ":
            return  # what was taken out is something else
        if not head.startswith(b"POST /") or head.count(b"\r\n") != max(head.count(b"\r"), head.count(b"\n")):
            return  # the parser may see its end elsewhere
        if not (parser.get_method() == b"POST" and is_usual(parser, self.url) and parser.should_keep_alive()):
            return
        authorization = None
        for name, value in self.headers:
            if name in {b"expect", b"transfer-encoding", b"upgrade"}:
                return
            if name == b"authorization":
                authorization = value.decode("latin-1")
        call = api.direct("POST", self.url.decode("ascii"), authorization)
        if call is None:
            return
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        self._heads[head] = call

    # What goes out

    def _ended(self, outcome: asyncio.Future[Any]) -> None:
        call, pending = self._call, self._pending
        if call is None or pending is None or self._api is None:
            outcome.exception()  # nobody is there to be told
            return
        self._pending = None
        self._reply(call, self._api.finish(call, pending), parked=pending.parked)

    def _reply(self, call: DirectCall, response: Response, *, parked: bool) -> None:
        body = response.body
        close = response.close or self._closing
        if response.status == 200 and response.content_type is JSON_TYPE and not (response.headers or close):
            self._wire.write(b"%b%d\r\n\r\n%b" % (self._start(), len(body), body))
        else:
            fields = [*self.server_state.default_headers, *response.headers]
            if close:
                fields.append(CLOSE)
            self._wire.write(head_of(response.status, fields, response.content_type, len(body)) + body)
        self._call = None
        if self._api is not None:
            self._api.count(call, response.status, None if parked else time.perf_counter() - self._began)
        if close:
            self.transport.close()
        if self._later:
            self.loop.call_soon(self._go_on)
        self.on_response_complete()

    def _start(self) -> bytes:
        """Return the usual reply's head up to the digits of its length; the date in it changes every second."""
        fields = self.server_state.default_headers
        if fields is not self._dated:
            self._dated = fields
            self._usual_head = head_of(200, fields, JSON_TYPE, 0).removesuffix(b"0" + _END)
        return self._usual_head

    # The life of a connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a connection."""
        super().connection_made(transport)
        # Replies made here are whole, and nothing is held back while a call is under way.
        self._wire = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a call whose caller is gone."""
        call, pending = self._call, self._pending
        self._call = self._pending = None
        self._later.clear()
        if call is not None and pending is not None and self._api is not None:
            if not pending.outcome.done():
                pending.abandon()
            self._api.count(call, 499, None if pending.parked else time.perf_counter() - self._began)
        if self._rest is not None and self._api is not None:
            self._rest.timer.cancel()
            self._api.count(self._rest.call, 499, None)
            self._rest = None
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()

    def shutdown(self) -> None:
        """End the connection after the reply that is under way."""
        if self._call is None and self._rest is None:
            super().shutdown()
        else:
            self._closing = True

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        self.server_state.total_requests += 1
        if self._wire.is_closing():
            return
        if not self._later:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_again(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        """Leave the timer alone: one for each request costs more than to look at the time when it rings."""

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if nothing came on it for so long."""
        self.timeout_keep_alive_task = None
        if self._idle_since is None:
            return  # a request is under way; its reply sets the timer again
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._look_again(left)
        else:
            super().timeout_keep_alive_handler()

    def _look_again(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)


def _split(data: bytes) -> _Split | None:
    """Take the length out of the head that these bytes begin with; None when it has not the usual form."""
    end = data.find(_END) + len(_END)
    at = data.find(_LENGTH, 0, min(end, _MAX_HEAD_BYTES)) + len(_LENGTH)
    stop = data.find(b"\r", at, end)
    digits = data[at:stop]
    if at < len(_LENGTH) or stop < 0 or len(digits) > _MAX_DIGITS or not digits.isdigit():
        return None
    return _Split(data[:at] + data[stop:end], int(digits), end)
