"""Who calls, and what that caller may do."""

from leadsman_broker.auth.principal import (
    Authenticator,
    AuthUnavailableError,
    Open,
    Principal,
    Role,
    UnauthenticatedError,
)

__all__ = [
    "AuthUnavailableError",
    "Authenticator",
    "Open",
    "Principal",
    "Role",
    "UnauthenticatedError",
]
