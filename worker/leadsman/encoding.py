"""JSON as it travels: strict, measured before it is sent, refused with words that name the place."""

import json
import re
from typing import Any

from leadsman.errors import InvalidValueError

MAX_RESULT_BYTES = 65_536
"""The broker's limit for a result and for a checkpoint, each, as compact UTF-8."""

MAX_DEPTH = 100
"""Nesting that every JSON parser on the way still reads, with room for the messages around it."""

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def encode(value: Any, what: str, max_bytes: int | None = None) -> str:
    """Return `value` as compact JSON. Raises InvalidValueError, its text beginning with `what`."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"{what} holds a lone surrogate, which is no text: decode it with errors='replace'"
        ) from error
    except RecursionError as error:
        raise InvalidValueError(f"{what} is nested too deeply to be JSON") from error
    except (TypeError, ValueError) as error:
        place = _first_bad(value)
        raise InvalidValueError(f"{what} is not JSON{place}: {error}") from error
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidValueError(f"{what} holds a NUL character, which not every store can keep; remove it")
    if _is_deep(text):
        raise InvalidValueError(f"{what} is nested deeper than {MAX_DEPTH} levels; flatten it")
    if max_bytes is not None and size > max_bytes:
        raise InvalidValueError(
            f"{what} has {size} bytes and may have {max_bytes}; keep it elsewhere and pass a reference"
        )
    return text


def normalised(value: Any, what: str, max_bytes: int | None = None) -> Any:
    """Return what a reader of the JSON will see: tuples as lists, keys as strings. Raises InvalidValueError."""
    if value is None:
        return None
    return json.loads(encode(value, what, max_bytes))


def _is_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif character in "]}":
            depth -= 1
    return False


def _first_bad(value: Any, path: str = "", depth: int = 0) -> str:
    """Name the deepest first place that cannot be encoded, as ` at .a[3]`; empty when it is the value itself."""
    if depth > 20:
        return f" at {path}"
    children: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        children = [(f"{path}.{key}", child) for key, child in value.items()]
    elif isinstance(value, list | tuple):
        children = [(f"{path}[{index}]", child) for index, child in enumerate(value)]
    for place, child in children:
        try:
            json.dumps(child, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return _first_bad(child, place, depth + 1)
    return f" at {path}" if path else ""
