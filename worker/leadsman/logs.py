"""Structured logs of worker and command line; nothing here is loaded by a producer.

Our own records go from structlog straight to standard error: through the standard library each cost more than the
rest of a short attempt. Records of the standard library's loggers are written in the same form.
"""

import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal, TextIO

from leadsman.context import TaskFacts
from leadsman.tracing import trace_id

_RICH_IS_NEW = "rich" not in sys.modules
if _RICH_IS_NEW:
    # structlog loads rich where it is installed, and that a highlighter: three MiB of every worker, for tracebacks
    # in colour. Whoever imports rich later still gets it.
    sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
    from structlog.typing import EventDict, Processor
finally:
    if _RICH_IS_NEW:
        del sys.modules["rich"]

LogFormat = Literal["json", "console"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def get_logger(name: str) -> Any:
    """Return a logger that works before `configure` too; then it writes where that says."""
    return structlog.get_logger(name)


def log_fields(facts: TaskFacts) -> dict[str, Any]:
    """Return what every record of an attempt carries."""
    fields: dict[str, Any] = {"task": facts.task_id, "attempt": facts.attempt, "capability": facts.capability}
    optional = {"tenant": facts.tenant, "run": facts.run_id, "trace": trace_id(facts.traceparent)}
    return fields | {name: value for name, value in optional.items() if value}


def bind_attempt(facts: TaskFacts) -> None:
    """Let every record of the current task or thread carry the attempt's fields, the standard library's too."""
    structlog.contextvars.bind_contextvars(**log_fields(facts))


def configure(log_format: LogFormat = "json", level: str = "INFO") -> None:
    """Write every log record of the process, structlog's and the standard library's alike, to standard error."""
    renderer: list[Processor] = (
        [structlog.processors.dict_tracebacks, _as_json]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:3], structlog.stdlib.ExtraAdder(), *shared[3:]],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    write = _writer(sys.stderr)
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda name="leadsman": _Lines(name, write),
        cache_logger_on_first_use=True,
    )


class _Lines:
    """What structlog hands its finished lines to; the level was looked at before."""

    def __init__(self, name: str, write: Callable[[str], None]) -> None:
        self.name = name
        self.debug = self.info = self.warning = self.error = self.critical = self.msg = write
        self.exception = self.fatal = self.log = write


def _writer(stream: TextIO) -> Callable[[str], None]:
    """Return what writes a line, whole and at once, and never fails: a log that cannot be written is lost."""
    try:
        fd = stream.fileno()
    except (OSError, ValueError):  # no file, as where a test captures it
        lock = threading.Lock()

        def write_to_stream(line: str) -> None:
            with contextlib.suppress(OSError, ValueError), lock:
                stream.write(line + "\n")
                stream.flush()

        return write_to_stream

    def write(line: str) -> None:
        data = f"{line}\n".encode(errors="backslashreplace")
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(fd, data) :]

    return write


def _add_logger_name(logger: Any, _method: str, event: EventDict) -> EventDict:
    record = event.get("_record")
    event["logger"] = logger.name if record is None else record.name
    return event


def _as_json(_logger: Any, _method: str, event: EventDict) -> str:
    try:
        return _ENCODER.encode(event)
    except Exception:  # noqa: BLE001  keys that are no text, a circle, a __str__ that fails: a log fails no task
        return _ENCODER.encode({str(key): _shown(value) for key, value in event.items()})


def _shown(value: Any) -> str:
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001  as above
        return "(cannot be shown)"
