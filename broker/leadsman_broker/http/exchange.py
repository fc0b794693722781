"""One request and its reply, over the bare ASGI messages: what every call pays for, kept short."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel

from leadsman.wire.problems import ProblemCode
from leadsman_broker.auth import Principal
from leadsman_broker.http.decode import decode
from leadsman_broker.http.problems import PROBLEM_TYPE, ProblemError
from leadsman_broker.http.whole import WHOLE_REPLY

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Model = TypeVar("Model", bound=BaseModel)

JSON_TYPE = b"application/json"
BODY_SECONDS = 30.0
"""For all of a body to come in, so that a caller who trickles does not hold a connection for ever."""


class CallerGoneError(Exception):
    """The socket closed; there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole reply."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()
    close: bool = False


@dataclass(slots=True)
class Exchange:
    """A request on its way through a handler."""

    scope: Scope
    receive: Receive
    send: Send
    max_body_bytes: int
    path: dict[str, str] = field(default_factory=dict)
    """The variable parts of the path: namespace, name, id."""
    principal: Principal = field(init=False)
    parked: bool = False
    """It waited for something to happen, so that its duration says nothing about the broker's speed."""

    @property
    def namespace(self) -> str:
        """The namespace in the path."""
        return self.path["namespace"]

    def header(self, name: bytes) -> str | None:
        """Return the last header of this lower-case name."""
        value = None
        for key, found in self.scope["headers"]:
            if key == name:
                value = found
        return None if value is None else value.decode("latin-1")

    def query(self, allowed: Iterable[str]) -> dict[str, str]:
        """Return the query's parameters. Raises ProblemError for one that is not `allowed` or given twice."""
        raw = self.scope["query_string"]
        if not raw:
            return {}
        found: dict[str, str] = {}
        for key, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
            if key not in allowed:
                raise bad_query(key, f"is not known here; known are {', '.join(sorted(allowed))}")
            if key in found:
                raise bad_query(key, "is given twice")
            found[key] = value
        return found

    async def read(self, model: type[Model]) -> Model:
        """Read and validate the body. Raises ProblemError, CallerGoneError."""
        return decode(model, await self.body())

    async def body(self) -> bytes:
        """Read the whole body. Raises ProblemError 413 or 408, CallerGoneError."""
        declared = self.header(b"content-length")
        if declared is not None and int(declared) > self.max_body_bytes:
            raise await self._too_large()
        message = await self.receive()
        if message["type"] != "http.request":
            raise CallerGoneError
        body: bytes = message["body"]
        if not message.get("more_body"):
            if len(body) > self.max_body_bytes:
                raise await self._too_large()
            return body
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._rest(body)
        except TimeoutError as error:
            raise body_late() from error

    async def _rest(self, first: bytes) -> bytes:
        chunks = [first]
        size = len(first)
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise CallerGoneError
            chunks.append(message["body"])
            size += len(message["body"])
            if size > self.max_body_bytes:
                raise await self._too_large()
            if not message.get("more_body"):
                return b"".join(chunks)

    async def _too_large(self) -> ProblemError:
        """Take in a bounded part of the rest: most clients read the answer only after they have sent everything."""
        budget = 2 * self.max_body_bytes
        more = True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more and budget > 0:
                    message = await self.receive()
                    more = message["type"] == "http.request" and message.get("more_body", False)
                    budget -= len(message.get("body", b""))
        except TimeoutError:
            more = True
        return ProblemError(
            413,
            ProblemCode.BODY_TOO_LARGE,
            f"a body may have at most {self.max_body_bytes} bytes; send smaller batches, "
            "or keep large data elsewhere and put a reference in the payload",
            close=more,
        )

    async def reply(self, response: Response) -> None:
        """Send a whole reply."""
        if not response.headers and not response.close and WHOLE_REPLY in self.scope.get("extensions", ()):
            whole = {"status": response.status, "content_type": response.content_type, "body": response.body}
            await self.send({"type": WHOLE_REPLY, **whole})
            return
        headers = [
            (b"content-type", response.content_type),
            (b"content-length", str(len(response.body)).encode()),
            *response.headers,
        ]
        if response.close:
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": response.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": response.body})

    async def gone(self) -> None:
        """Return when the caller's socket has closed. Only to be awaited after the body was read."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def body_late() -> ProblemError:
    """Refuse a body that trickles."""
    return ProblemError(
        408, ProblemCode.INVALID_REQUEST, f"the body did not arrive within {BODY_SECONDS:.0f} s", close=True
    )


def json_response(model: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode a reply model; absent and null are the same on this wire, so null fields are left out."""
    return Response(
        model.model_dump_json(by_alias=True, exclude_none=True).encode(), status, headers=_raw(headers or {})
    )


def problem_response(problem: ProblemError) -> Response:
    """Encode a refusal."""
    return Response(
        problem.body(), problem.status, PROBLEM_TYPE, headers=_raw(problem.headers), close=problem.close
    )


def bad_query(name: str, why: str) -> ProblemError:
    """Refuse a query parameter."""
    return ProblemError(
        422,
        ProblemCode.INVALID_REQUEST,
        f"the query parameter {name[:100]!r} {why}",
        errors=[{"field": f"query.{name[:100]}", "message": why, "type": "query"}],
    )


def _raw(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((key.lower().encode(), value.encode()) for key, value in headers.items())
