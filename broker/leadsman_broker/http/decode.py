"""From bytes to a validated request, refusing JSON that two programs could read differently.

Duplicate keys, NaN, numbers beyond a double, lone surrogates and NUL characters are legal for some parsers and not
for others (RFC 7493 names them). What the broker accepts must mean the same to every worker and every store, so
such a body is refused here and can never fail later.
"""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from leadsman_broker.http.problems import invalid_json, invalid_request

Model = TypeVar("Model", bound=BaseModel)

_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE = (b"0e000", b"0e+000", b"0" * 200)
"""In a text of this shape, one of these is in every number beyond a double: with at most two digits of exponent and
199 of number it stays below 1e298. Looking for them takes a tenth of what a regular expression does."""

SPARE_LEVELS = 50
"""Nesting left over by what is accepted: a payload comes back inside of larger documents, which JSON parsers with
a limit (pydantic's is 200) must still read."""

ENVELOPE = (b"[" * SPARE_LEVELS, b"]" * SPARE_LEVELS)

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class _RefusedError(ValueError):
    pass


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"the key {key[:100]!r} occurs twice in one object")
            seen.add(key)
    return found


def _constant(name: str) -> None:
    raise _RefusedError(f"{name} is not JSON; send null or a string")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise _RefusedError(f"the number {text[:20]}... is beyond a 64-bit float; send it as a string")
    return number


_USUAL = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_constant)
# Slower: a Python call for every number.
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=_without_duplicates, parse_constant=_constant, parse_float=_finite, parse_int=_finite
)


def decode(model: type[Model], body: bytes) -> Model:
    """Return the request in `body`. Raises ProblemError 400 `invalid_json` or 422 `invalid_request`."""
    _refuse_ambiguous(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise invalid_json(first["msg"].removeprefix("Invalid JSON: ")) from error
        raise invalid_request(error) from error


def has_large_numbers(text: bytes) -> bool:
    """Whether a number may be in a JSON text that a double cannot hold."""
    shape = text.translate(_SHAPE)
    exponent, signed_exponent, digits = _LARGE
    return exponent in shape or signed_exponent in shape or digits in shape


def _refuse_ambiguous(body: bytes) -> None:
    if not body:
        raise invalid_json("it is empty")
    if b"\\u0000" in body and _NUL.search(body):
        raise invalid_json("a string contains NUL (\\u0000), which not every store can hold; remove it")
    if body.count(b"{") + body.count(b"[") > SPARE_LEVELS:
        _refuse_deep(body)
    decoder = _CAREFUL if has_large_numbers(body) else _USUAL
    try:
        decoder.decode(body.decode())
    except UnicodeDecodeError as error:
        raise invalid_json(f"it is not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise invalid_json(str(error)) from error


def _refuse_deep(body: bytes) -> None:
    before, after = ENVELOPE
    try:
        from_json(before + body + after, cache_strings="none")
    except ValueError as error:
        if "recursion" in str(error):
            raise invalid_json("it is nested too deeply; stay within 140 levels") from error
        # Another mistake: the decoders say it with the position in the body as it was sent.
