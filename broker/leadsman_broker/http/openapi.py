"""The OpenAPI document, generated from the table of calls and the wire models."""

import json
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from leadsman import __version__
from leadsman.wire.problems import Problem
from leadsman_broker.http.exchange import Exchange, Response
from leadsman_broker.http.routing import Route

_REF = "#/components/schemas/{model}"
_EVERY_CALL = (400, 401, 403, 422, 503)
_PATTERNS = {
    "namespace": {"type": "string", "maxLength": 253, "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
    "name": {"type": "string", "maxLength": 253, "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
    "id": {"type": "string", "maxLength": 64, "pattern": r"^[A-Za-z0-9_-]+$"},
}


def openapi_route(routes: Iterable[Route]) -> Route:
    """Return the call that serves the document of `routes`."""
    body = json.dumps(document(routes)).encode()

    async def serve(_exchange: Exchange) -> Response:
        return Response(body)

    return Route("GET", "/v1/openapi.json", serve, frozenset(), "This document")


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    table = list(routes)
    wanted: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {(Problem, "serialization"): None}
    for route in table:
        if route.request is not None:
            wanted[route.request, "validation"] = None
        if route.reply is not None:
            wanted[route.reply, "serialization"] = None
    refs, definitions = models_json_schema(list(wanted), by_alias=True, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Leadsman broker",
            "version": __version__,
            "description": "A queue per capability, leases with heartbeats, durable outcomes.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _PATTERNS[name]}
            for name in re.findall(r"{(\w+)}", route.template)
        ]
        + [
            {
                "name": parameter.name,
                "in": "query",
                "description": parameter.description,
                "schema": parameter.schema,
            }
            for parameter in route.parameters
        ],
        "responses": _responses(route, refs),
    }
    if route.roles:
        operation["security"] = [{"bearer": []}]
        operation["description"] = f"Roles: {', '.join(sorted(role.value for role in route.roles))} (and admin)."
    if route.request is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": refs[route.request, "validation"]}},
        }
    return operation


def _responses(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {} if route.reply is None else refs[route.reply, "serialization"]
    answer = {"content": {route.media_type: {"schema": schema}}}
    found: dict[str, Any] = {"200": {"description": "The answer", **answer}}
    if route.roles:
        problem = refs[Problem, "serialization"]
        statuses = (*_EVERY_CALL, *(() if route.request is None else (413,)), *route.statuses)
        for status in sorted(statuses):
            found[str(status)] = {
                "description": HTTPStatus(status).phrase,
                "content": {"application/problem+json": {"schema": problem}},
            }
    if 429 in route.statuses:
        # Refusals are answers: the same body as of 200, with Retry-After.
        found["429"] = {"description": "Every item was refused for depth", **answer}
    return found


def _operation_id(route: Route) -> str:
    parts = [part for part in route.template.split("/")[2:] if not part.startswith("{")]
    return "_".join([route.method.lower(), *parts, *(["one"] if route.template.endswith("{id}") else [])])
