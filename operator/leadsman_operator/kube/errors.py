"""What the API server answers when it refuses, and what each answer means to us."""

from collections.abc import Mapping
from typing import Any, Self

_SCHEMA_COMPLAINTS = ("field not declared in schema", "failed to create typed patch object", "expected map, got")
"""A field of the wrong name or type in a server-side apply comes back as a 500 with one of these, not as a 422."""


class ApiError(Exception):
    """The API server refused: HTTP `status`, the Status object's `reason` and `message`, and its `details`."""

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}

    @classmethod
    def from_body(cls, status: int, http_reason: str, body: object) -> Self:
        """Read a Status object; anything else (a proxy's page) gives the HTTP reason."""
        if isinstance(body, Mapping) and body.get("kind") == "Status":
            return cls(
                status, str(body.get("reason") or http_reason), str(body.get("message", "")), body.get("details")
            )
        return cls(status, http_reason, str(body)[:200])

    @property
    def not_found(self) -> bool:
        """The object is gone."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """A 409: the object changed since it was read, or another manager owns the field."""
        return self.status == 409

    @property
    def other_managers(self) -> list[str]:
        """Return the field managers that own what an apply wanted to write; empty for any other 409."""
        if self.status != 409:
            return []
        causes = self.details.get("causes") or []
        return [
            _manager(str(cause.get("message", "")))
            for cause in causes
            if isinstance(cause, Mapping) and cause.get("reason") == "FieldManagerConflict"
        ]

    @property
    def terminating(self) -> bool:
        """The namespace is being deleted: nothing new can be made in it."""
        causes = self.details.get("causes") or []
        return self.status == 403 and (
            any(isinstance(cause, Mapping) and cause.get("reason") == "NamespaceTerminating" for cause in causes)
            or "is being terminated" in self.message
        )

    @property
    def refused(self) -> bool:
        """The object itself is wrong: it stays refused until its author changes it."""
        if self.status in {400, 422}:
            return True
        if self.status == 500:
            return any(complaint in self.message for complaint in _SCHEMA_COMPLAINTS)
        return (
            self.status == 403 and not self.terminating and self.reason == "Forbidden" and "denied" in self.message
        )

    @property
    def retry_after_seconds(self) -> float | None:
        """How long the server asked us to wait."""
        seconds = self.details.get("retryAfterSeconds")
        return float(seconds) if isinstance(seconds, int | float) else None


class UnreachableError(Exception):
    """No answer from the API server: refused, reset, timed out. Says nothing about what it did."""


def _manager(message: str) -> str:
    """Take the manager's name out of `conflict with "NAME" with subresource ...`."""
    parts = message.split('"')
    return parts[1] if len(parts) > 2 else message
