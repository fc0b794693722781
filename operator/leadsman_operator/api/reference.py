"""`docs/reference.md`: every field of both kinds, from the same schema that the API server has."""

from collections.abc import Iterator
from typing import Any

from leadsman_operator.api.base import API_VERSION
from leadsman_operator.api.crds import KINDS, Kind, schema_of
from leadsman_operator.api.schema import Schema

_INTRODUCTION = f"""# Reference

Every field of the two kinds of `{API_VERSION}`, with its default and its bounds. `kubectl explain` says the same
on a cluster. This page is generated from the models (`make crds`); do not edit it.

Durations are whole seconds. A field without a default may be left out, unless it is marked *required*.
What `template` and `env` add to the pods is described in [worker.md](worker.md), the way a size comes about in
[scaling.md](scaling.md).
"""


def reference() -> str:
    """Write the page."""
    return "\n".join([_INTRODUCTION, *(line for kind in KINDS for line in _kind(kind))]) + "\n"


def _kind(kind: Kind) -> Iterator[str]:
    schema = schema_of(kind)
    yield f"## {kind.name} (`{kind.short}`)"
    yield ""
    yield schema["description"]
    yield ""
    for part in ("spec", "status"):
        yield f"### {kind.name} {part}"
        yield ""
        yield schema["properties"][part]["description"]
        yield ""
        yield from _table(schema["properties"][part], with_default=part == "spec")
        yield ""
    yield f"### {kind.name}: what the API server refuses"
    yield ""
    yield "Besides a value outside its bounds:"
    yield ""
    for where, message in _checks(schema, ""):
        yield f"- `{where}`: {message}"
    yield ""
    yield f"### {kind.name}: columns of `kubectl get {kind.short}`"
    yield ""
    yield "| column | from | shown |"
    yield "|---|---|---|"
    for column in kind.columns:
        yield f"| {column.name.upper()} | `{column.path}` | {'with `-o wide`' if column.priority else 'always'} |"
    yield ""


def _table(schema: Schema, *, with_default: bool) -> Iterator[str]:
    yield "| field | type | default | meaning |" if with_default else "| field | type | meaning |"
    yield "|---|---|---|---|" if with_default else "|---|---|---|"
    for path, field, required in _fields(schema, ""):
        cells = [f"`{path}`", _type(field)]
        if with_default:
            cells.append("*required*" if required else _default(field))
        cells.append(_escape(field.get("description", "")))
        yield "| " + " | ".join(cells) + " |"


def _fields(schema: Schema, prefix: str) -> Iterator[tuple[str, Schema, bool]]:
    """Depth first, in the order of the models; an object stands before what is in it."""
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, field, name in required
        if "items" in field:
            yield from _fields(field["items"], f"{path}[].")
        else:
            yield from _fields(field, f"{path}.")


def _type(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(field["enum"])
    if "x-kubernetes-int-or-string" in field:
        return "integer or string"
    kind: str = field["type"]
    if kind == "array":
        return f"list, {field.get('minItems', 0)} to {field['maxItems']}; each {_type(field['items'])}"
    if kind == "integer" and "maximum" in field and field["maximum"] < 2**31 - 1:
        return f"integer, {field['minimum']} to {field['maximum']}"
    if kind == "string":
        return "date and time" if field.get("format") == "date-time" else f"string, up to {field['maxLength']}"
    if kind == "object" and "additionalProperties" in field:
        return f"map, up to {field['maxProperties']}"
    return kind


def _default(field: Schema) -> str:
    default: Any = field.get("default")
    if default is None or isinstance(default, dict):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _checks(schema: Schema, prefix: str) -> Iterator[tuple[str, str]]:
    for check in schema.get("x-kubernetes-validations", []):
        yield prefix or "metadata", _escape(check["message"])
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield from _checks(field, path)
        if "items" in field:
            yield from _checks(field["items"], f"{path}[]")


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
