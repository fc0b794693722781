"""Server-sent events out of a stream of bytes (WHATWG HTML, section 9.2.6), as far as the broker uses them."""

from dataclasses import dataclass

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""More than a snapshot of a hundred thousand workers; whatever is larger is not ours."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its type and its data."""

    kind: str
    data: str


class EventTooLargeError(Exception):
    """The stream holds no end of an event within bounds: it is not a stream of the broker's."""


class EventParser:
    """Feed it bytes as they come, cut anywhere."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._kind = ""
        self._data: list[str] = []
        self._size = 0

    @property
    def halfway(self) -> bool:
        """Whether an event has begun that has not ended."""
        return bool(self._buffer or self._data)

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that are complete now. Raises EventTooLargeError."""
        self._buffer += chunk
        if len(self._buffer) + self._size > MAX_EVENT_BYTES:
            raise EventTooLargeError(f"more than {MAX_EVENT_BYTES} bytes without the end of an event")
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        found = []
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode("utf-8", errors="replace"))
            if event is not None:
                found.append(event)
        return found

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            event = ServerEvent(self._kind or "message", "\n".join(self._data)) if self._data else None
            self._kind, self._data, self._size = "", [], 0
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
            self._size += len(value)
        return None
