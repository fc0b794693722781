"""Payloads as the type that a handler's signature names."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from leadsman.app import App, Handler
from leadsman.errors import ConfigurationError, InvalidPayloadError

_SHOWN_ERRORS = 5


def check_payload_types(app: App, capabilities: Iterable[str]) -> None:
    """Resolve the types that handlers name, so that a mistake is told at start. Raises ConfigurationError."""
    served = set(capabilities)
    for handler in app.handlers.values():
        if handler.capability in served and handler.takes_payload:
            try:
                _adapter(handler.function)
            except Exception as error:
                raise ConfigurationError(
                    f"{handler}: the type of the payload cannot be used: {type(error).__name__}: {error}"
                ) from error


def further_arguments(handler: Handler, payload: Any) -> tuple[Any, ...]:
    """Return what the handler takes after its context. Raises InvalidPayloadError, which says what does not fit."""
    if not handler.takes_payload:
        return ()
    adapter = _adapter(handler.function)
    try:
        # As JSON, not as Python: a strict model takes a date from a string only there.
        return (adapter.validate_json(to_json(payload)),)
    except ValidationError as error:
        wrong = [
            f"{'.'.join(str(part) for part in one['loc']) or 'the payload'}: {one['msg']}"
            for one in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        more = f"; and {len(wrong) - _SHOWN_ERRORS} more" if len(wrong) > _SHOWN_ERRORS else ""
        raise InvalidPayloadError(
            f"the payload does not fit {error.title}: {'; '.join(wrong[:_SHOWN_ERRORS])}{more}"
        ) from None


@functools.cache
def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isfunction(inner) and not inspect.ismethod(inner):
        inner = inner.__call__
    name = list(inspect.signature(function).parameters)[1]
    return TypeAdapter(get_type_hints(inner, include_extras=True).get(name, Any))
