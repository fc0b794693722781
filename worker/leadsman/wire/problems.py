"""Errors as RFC 9457 problem documents with a stable `code`."""

from enum import StrEnum

from pydantic import JsonValue

from leadsman.wire.base import Reply


class ProblemCode(StrEnum):
    """Stable words a program may branch on."""

    INVALID_REQUEST = "invalid_request"
    INVALID_JSON = "invalid_json"
    BODY_TOO_LARGE = "body_too_large"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    UNKNOWN_CAPABILITY = "unknown_capability"
    UNKNOWN_TASK = "unknown_task"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    LEASE_LOST = "lease_lost"
    ALREADY_SETTLED = "already_settled"
    RESULT_TOO_LARGE = "result_too_large"
    CHECKPOINT_TOO_LARGE = "checkpoint_too_large"
    NOT_DEAD = "not_dead"
    UNKNOWN_RUN = "unknown_run"
    RUN_ENDED = "run_ended"
    ESTIMATE_TOO_LARGE = "estimate_too_large"
    FOLLOW_UP_REFUSED = "follow_up_refused"
    CONFIRMATION_REQUIRED = "confirmation_required"
    SATURATED = "saturated"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    STORAGE_FULL = "storage_full"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class Problem(Reply):
    """The body of every error reply (`application/problem+json`)."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str | None = None
    errors: list[JsonValue] = []
    """For an invalid request: the field and what is wrong with it, one entry each."""
