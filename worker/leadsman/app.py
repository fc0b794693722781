"""Handlers and the capabilities they serve."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from leadsman.errors import ConfigurationError

Function = TypeVar("Function", bound=Callable[..., Any])

Isolation = Literal["none", "process"]

DEFAULT_NAME = "default"

# The wire's patterns, repeated so that an application loads without pydantic; a test compares them.
CAPABILITY_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$"
_MAX_CAPABILITY = 253
_MAX_NAME = 128


@dataclass(frozen=True, slots=True)
class Handler:
    """One function that runs the tasks of one name on one capability."""

    capability: str
    name: str
    function: Callable[..., Any]
    is_async: bool
    isolated: bool = False
    """Each attempt in a process of its own."""
    timeout_seconds: float | None = None
    """An isolated attempt is killed after this."""
    memory_mib: int | None = None
    """What an isolated attempt may use beyond what the application itself takes."""
    takes_payload: bool = False
    """Its second parameter gets the payload."""

    def __str__(self) -> str:
        return f"{self.capability}/{self.name}"


class App:
    """A set of handlers.

    app = App()

    @app.task("browser")
    async def browse(ctx: Context) -> dict: ...

    An async handler gets a Context and runs on the worker's event loop; a plain function gets a SyncContext and
    runs in a thread. What it returns is the task's result: JSON of at most 64 KiB. A second parameter gets the
    payload, as the type that its annotation names.
    """

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler] = {}

    def task(
        self,
        capability: str,
        *,
        name: str = DEFAULT_NAME,
        isolation: Isolation = "none",
        timeout_seconds: float | None = None,
        memory_mib: int | None = None,
    ) -> Callable[[Function], Function]:
        """Register the decorated function for tasks of `name` on `capability`; the function stays as it is.

        With `isolation="process"` each attempt runs in a process of its own, async or not: a crash, memory that
        runs out, `timeout_seconds` and a cancellation end that process and whatever it started, never the worker.
        `memory_mib` bounds what the attempt allocates beyond the loaded application (Linux).

        Raises ConfigurationError for a name that no task can have, a function that cannot be a handler, and a
        second handler for the same capability and name.
        """
        if len(capability) > _MAX_CAPABILITY or not re.fullmatch(CAPABILITY_PATTERN, capability):
            raise ConfigurationError(
                f"{capability!r} is no capability name: lower-case letters, digits, '-' and '.', as in Kubernetes"
            )
        if len(name) > _MAX_NAME or not re.fullmatch(NAME_PATTERN, name):
            raise ConfigurationError(f"{name!r} is no handler name: letters, digits and _ . : - up to 128")

        _check_isolation(f"{capability}/{name}", isolation, timeout_seconds, memory_mib)

        def register(function: Function) -> Function:
            isolated = isolation == "process"
            takes_payload = _takes_payload(f"{capability}/{name}", function)
            handler = Handler(
                capability,
                name,
                function,
                _is_async(function),
                isolated,
                timeout_seconds,
                memory_mib,
                takes_payload,
            )
            self._add(handler)
            return function

        return register

    @property
    def handlers(self) -> Mapping[tuple[str, str], Handler]:
        """Every handler by (capability, name)."""
        return dict(self._handlers)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities that have a handler, in order of first registration."""
        return tuple(dict.fromkeys(capability for capability, _ in self._handlers))

    def handler(self, capability: str, name: str = DEFAULT_NAME) -> Handler | None:
        """Return the handler of a task, or None."""
        return self._handlers.get((capability, name))

    def names(self, capability: str) -> tuple[str, ...]:
        """Return the handler names known on a capability."""
        return tuple(sorted(name for known, name in self._handlers if known == capability))

    def include(self, other: "App") -> None:
        """Take over every handler of another App; for applications of several modules."""
        for handler in other._handlers.values():  # noqa: SLF001  the same class
            self._add(handler)

    def _add(self, handler: Handler) -> None:
        known = self._handlers.get((handler.capability, handler.name))
        if known is not None:
            raise ConfigurationError(
                f"{handler} has two handlers, {_title(known.function)} and {_title(handler.function)}; "
                "give one of them another name="
            )
        self._handlers[handler.capability, handler.name] = handler


def _check_isolation(handler: str, isolation: str, timeout_seconds: float | None, memory_mib: int | None) -> None:
    if isolation not in get_args(Isolation):
        raise ConfigurationError(f'{handler}: isolation is "none" or "process", not {isolation!r}')
    for what, given in (("timeout_seconds", timeout_seconds), ("memory_mib", memory_mib)):
        if given is None:
            continue
        if isolation == "none":
            raise ConfigurationError(f'{handler}: {what} can be kept only with isolation="process"')
        if not given > 0:
            raise ConfigurationError(f"{handler}: {what} must be more than 0, not {given}")


def _innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _is_async(function: Callable[..., Any]) -> bool:
    inner = _innermost(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004  a callable object may have an async __call__


def _takes_payload(handler: str, function: Callable[..., Any]) -> bool:
    """Look at the shape of a handler; return whether it has a second parameter that must be given."""
    inner = _innermost(function)
    if not callable(inner):
        raise ConfigurationError(f"{handler}: {inner!r} is not a function")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(
            f"{handler}: {_title(inner)} is a generator; return the result instead of yielding"
        )
    signature = inspect.signature(function)
    for arguments in (1, 2):
        try:
            signature.bind(*[object()] * arguments)
        except TypeError as error:
            misfit = error
        else:
            return arguments == 2
    raise ConfigurationError(
        f"{handler}: {_title(inner)} must take the context, and may take the payload after it: {misfit}"
    )


def _title(function: Callable[..., Any]) -> str:
    inner = _innermost(function)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))
