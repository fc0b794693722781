"""Whatever a caller can send has an upper bound: a number must fit its column, a text and a list their memory."""

import importlib
import inspect
import pkgutil

import pytest

import leadsman.wire
from leadsman.wire.base import Request

BOUND = {
    "integer": {"maximum", "exclusiveMaximum"},
    "number": {"maximum", "exclusiveMaximum"},
    "string": {"maxLength", "enum", "const"},
    "array": {"maxItems", "prefixItems"},
}
LARGEST_INTEGER = 2**63 - 1


def requests() -> list[type[Request]]:
    found = set()
    for module in pkgutil.iter_modules(leadsman.wire.__path__):
        loaded = importlib.import_module(f"leadsman.wire.{module.name}")
        found |= {kind for _, kind in inspect.getmembers(loaded, inspect.isclass) if issubclass(kind, Request)}
    return sorted(found - {Request}, key=lambda kind: kind.__name__)


def unbounded(schema: dict, path: str):
    """Yield the places of a schema, but for what it refers to, that have no upper bound."""
    bounds = BOUND.get(schema.get("type", ""))
    if bounds and not bounds & schema.keys():
        yield path
    if schema.get("type") == "integer" and schema.get("maximum", 0) > LARGEST_INTEGER:
        yield path
    for word in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(word, []):
            yield from unbounded(part, path)
    for name, part in schema.get("properties", {}).items():
        yield from unbounded(part, f"{path}.{name}")
    for word, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(word), dict):
            yield from unbounded(schema[word], path + mark)


@pytest.mark.parametrize("kind", requests(), ids=lambda kind: kind.__name__)
def test_every_field_of_a_request_is_bounded(kind):
    assert list(unbounded(kind.model_json_schema(), kind.__name__)) == []


def test_an_unbounded_field_would_be_found():
    schema = {"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]}}}
    assert list(unbounded(schema, "X")) == ["X.a", "X.a[]"]
