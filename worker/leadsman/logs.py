"""Structured logs of worker and command line; nothing here is loaded by a producer."""

import logging
import sys
from typing import Any, Literal

import structlog
from structlog.typing import Processor

from leadsman.context import TaskFacts
from leadsman.tracing import trace_id

LogFormat = Literal["json", "console"]

_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def get_logger(name: str) -> Any:
    """Return a logger that works before and without `configure`, then through the standard library."""
    return structlog.stdlib.get_logger(name)


def log_fields(facts: TaskFacts) -> dict[str, Any]:
    """Return what every record of an attempt carries."""
    fields: dict[str, Any] = {"task": facts.task_id, "attempt": facts.attempt, "capability": facts.capability}
    optional = {"tenant": facts.tenant, "run": facts.run_id, "trace": trace_id(facts.traceparent)}
    return fields | {name: value for name, value in optional.items() if value}


def configure(log_format: LogFormat = "json", level: str = "INFO") -> None:
    """Write every log record of the process, structlog's and the standard library's alike, to standard error."""
    renderer: list[Processor] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(ensure_ascii=False, default=str)]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
