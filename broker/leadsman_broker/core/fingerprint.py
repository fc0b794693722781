"""What makes two payloads the same for an idempotency key."""

import hashlib
import json

from pydantic import JsonValue

# Kept: `json.dumps` makes a new one for each call with settings of its own.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def fingerprint(payload: JsonValue) -> bytes:
    """Return the SHA-256 of the payload's canonical JSON: sorted keys, no spaces, ASCII (so lone surrogates fit).

    Raises ValueError for NaN and infinities, which are not JSON, and RecursionError for endless nesting.
    """
    return hashlib.sha256(_CANONICAL.encode(payload).encode("ascii")).digest()
