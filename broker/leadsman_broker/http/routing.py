"""The table of calls: what a path means, who may use it, and what the OpenAPI document says about it.

A lookup walks the path's segments through nested dictionaries. Starlette's router, with a regular expression for
each route and a stack of middleware for each call, took as long as a whole enqueue.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from pydantic import BaseModel

from leadsman.wire.problems import ProblemCode
from leadsman_broker.auth import Role
from leadsman_broker.http.exchange import Exchange, Response
from leadsman_broker.http.problems import ProblemError

Handler = Callable[[Exchange], Awaitable[Response | None]]
"""Answers an exchange; None when it has sent its reply itself (a stream)."""

_VARIABLE = "{}"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FORMS = {"namespace": _NAME, "name": _NAME, "id": _ID}

PRODUCERS = frozenset({Role.PRODUCER})
KEEPERS = frozenset({Role.PRODUCER, Role.OPERATOR})
"""Who looks after a queue: pauses it, and deals with its dead."""
READERS = frozenset({Role.PRODUCER, Role.WORKER, Role.OPERATOR})

CAPABILITY = "/v1/namespaces/{namespace}/capabilities/{name}"
"""The path of one queue."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter, for the OpenAPI document."""

    name: str
    description: str
    schema: dict[str, object]


@dataclass(frozen=True, slots=True)
class Route:
    """One call."""

    method: str
    template: str
    """As in OpenAPI: /v1/namespaces/{namespace}/tasks."""
    handler: Handler
    roles: frozenset[Role]
    """Who may use it, besides admin. Empty: anyone, without a token."""
    summary: str
    request: type[BaseModel] | None = None
    reply: type[BaseModel] | None = None
    parameters: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = ()
    """Those besides 200 and the ones every call may answer."""
    media_type: str = "application/json"


@dataclass(slots=True)
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict)
    variable: str | None = None
    methods: dict[str, Route] = field(default_factory=dict)


class Routes:
    """Finds the route of a method and a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = tuple(routes)
        self._root = _Node()
        for route in self.all:
            self._add(route)

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route and the path's variable parts. Raises ProblemError 404, 405 or 422."""
        node = self._root
        values: dict[str, str] = {}
        for segment in path.split("/")[1:]:
            child = node.children.get(segment)
            if child is None:
                child = node.children.get(_VARIABLE)
                if child is None or child.variable is None:
                    raise _not_found(path)
                values[child.variable] = segment
            node = child
        route = node.methods.get(method)
        if route is None:
            if not node.methods:
                raise _not_found(path)
            allowed = ", ".join(sorted(node.methods))
            raise ProblemError(
                405,
                ProblemCode.METHOD_NOT_ALLOWED,
                f"{method} is not possible here; use {allowed}",
                headers={"allow": allowed},
            )
        for name, value in values.items():
            if _FORMS[name].fullmatch(value) is None:
                raise ProblemError(
                    422, ProblemCode.INVALID_REQUEST, f"{value[:100]!r} in the path is not a valid {name}"
                )
        return route, values

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.template.split("/")[1:]:
            variable = segment[1:-1] if segment.startswith("{") else None
            node = node.children.setdefault(segment if variable is None else _VARIABLE, _Node())
            node.variable = variable
        node.methods[route.method] = route


def _not_found(path: str) -> ProblemError:
    return ProblemError(
        404, ProblemCode.NOT_FOUND, f"nothing is at {path[:200]!r}; the calls are listed at /v1/openapi.json"
    )
