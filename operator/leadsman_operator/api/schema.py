"""From a model to the structural OpenAPI schema of a CRD.

Pydantic's JSON schema says nearly all of it. What differs: no references, no titles, an optional field is one that
may be absent rather than null, and a nested object that may be left out has a default, so that the API server
fills in what is inside it.
"""

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_DROPPED = {"title", "$defs", "additionalProperties", "discriminator", "default"}
_FIRST = ("description", "type", "enum", "format", "default", "required", "properties", "items")
_DEFINITIONS = "#/$defs/"


class SchemaError(ValueError):
    """A model that has no structural schema."""


def structural(model: type[BaseModel]) -> Schema:
    """Give the structural schema of a kind's `model`; raises `SchemaError` for what a CRD cannot express."""
    whole = model.model_json_schema(by_alias=True)
    whole["properties"].pop("metadata")  # the API server's own, and not to be described here
    return _convert(whole, whole.get("$defs", {}), model.__name__)


def _convert(node: Schema, definitions: dict[str, Schema], path: str) -> Schema:
    if "x-kubernetes-int-or-string" in node or "x-kubernetes-preserve-unknown-fields" in node:
        return _ordered({key: value for key, value in node.items() if key not in _DROPPED} | _default(node))
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix(_DEFINITIONS)]
        return _convert(
            {**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions, path
        )
    if "anyOf" in node:
        return _convert(_optional(node, path), definitions, path)
    if "const" in node:
        return {"type": "string"}
    if "prefixItems" in node or "allOf" in node or "oneOf" in node or "type" not in node:
        raise SchemaError(f"{path}: no structural schema for {node}")
    found = {key: value for key, value in node.items() if key not in _DROPPED}
    if "properties" in node:
        found["properties"] = {
            name: _convert(child, definitions, f"{path}.{name}") for name, child in node["properties"].items()
        }
    elif node["type"] == "object":
        found["additionalProperties"] = _convert(node["additionalProperties"], definitions, f"{path}[*]")
        if "maxProperties" not in node:
            raise SchemaError(f"{path}: a map without a bound")
    if "items" in node:
        found["items"] = _convert(node["items"], definitions, f"{path}[]")
    return _ordered(found | _default(node | found))


def _ordered(node: Schema) -> Schema:
    """Put first what a reader looks for first; a description is one paragraph, however the source wraps it."""
    found = {key: node[key] for key in _FIRST if key in node}
    found |= {key: value for key, value in node.items() if key not in _FIRST}
    if "description" in found:
        found["description"] = " ".join(found["description"].split())
    return found


def without_defaults(node: Schema) -> Schema:
    """Give the same schema with nothing that the API server fills in: a status says only what was found."""
    found = {key: value for key, value in node.items() if key != "default"}
    if "properties" in found:
        found["properties"] = {name: without_defaults(child) for name, child in found["properties"].items()}
    if "items" in found:
        found["items"] = without_defaults(found["items"])
    return found


def _optional(node: Schema, path: str) -> Schema:
    """`X | None` is X; a default of null is no default."""
    choices = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
    if len(choices) != 1:
        raise SchemaError(f"{path}: a choice between types")
    outer = {key: value for key, value in node.items() if key != "anyOf"}
    return {**choices[0], **outer}


def _default(node: Schema) -> Schema:
    default = node.get("default")
    if default is None or default in ([], ()):
        return {}
    if not isinstance(default, dict):
        return {"default": default}
    if "x-kubernetes-validations" not in node:
        return {"default": {}}
    # The API server checks a default against the rules before it fills in what is inside, so all must be there.
    inner = node["properties"].items()
    return {"default": {name: field["default"] for name, field in inner if "default" in field}}
