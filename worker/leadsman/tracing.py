"""Traces from submit to handler, for programs that use OpenTelemetry; in others nothing happens."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from leadsman.outcomes import Release

if TYPE_CHECKING:
    from leadsman.context import TaskFacts

_SCOPE = "leadsman"


def current_traceparent() -> str | None:
    """Return the caller's span as the W3C header; None when there is none."""
    if "opentelemetry" not in sys.modules:  # whoever is in a span has loaded it
        return None
    try:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  optional
            TraceContextTextMapPropagator,
        )
    except ImportError:
        return None
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def trace_id(traceparent: str | None) -> str | None:
    """Return the trace's id out of the W3C header, for a log."""
    parts = (traceparent or "").split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) == 32 else None


@contextmanager
def attempt_span(facts: "TaskFacts") -> Iterator[None]:
    """Run an attempt in a span whose parent is that of the submit. A failure marks it; a release does not."""
    if "opentelemetry" not in sys.modules:  # whoever exports spans has loaded it
        yield
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415  optional
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )
    except ImportError:
        yield
        return
    parent = None
    if facts.traceparent is not None:
        parent = TraceContextTextMapPropagator().extract({"traceparent": facts.traceparent})
    span = trace.get_tracer(_SCOPE).start_span(
        f"process {facts.capability}/{facts.name}",
        context=parent,
        kind=trace.SpanKind.CONSUMER,
        attributes=_attributes(facts),
    )
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except Release:
            raise
        except Exception as error:
            span.record_exception(error)
            span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise


def flush() -> None:
    """Send what was traced; for a process that is about to end without Python's own end."""
    if "opentelemetry" not in sys.modules:
        return
    from opentelemetry import trace  # noqa: PLC0415  optional

    force: Any = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(2_000)


def _attributes(facts: "TaskFacts") -> dict[str, str | int]:
    return {
        "messaging.system": "leadsman",
        "messaging.operation.type": "process",
        "messaging.destination.name": facts.capability,
        "messaging.message.id": facts.task_id,
        "leadsman.namespace": facts.namespace,
        "leadsman.handler": facts.name,
        "leadsman.tenant": facts.tenant,
        "leadsman.attempt": facts.attempt,
    }
