"""Roles, callers, and the interface of what turns a bearer token into a caller."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Role(StrEnum):
    """What a caller may do; see docs/broker.md for the calls of each."""

    PRODUCER = "producer"
    """Submits, reads, cancels and redrives tasks of its namespaces."""
    WORKER = "worker"
    """Leases and settles tasks of its namespaces."""
    OPERATOR = "operator"
    """Reads the stats of every namespace, fences workers, sets capabilities."""
    ADMIN = "admin"
    """All of these, everywhere."""


class UnauthenticatedError(Exception):
    """The token is missing, unknown or expired; the message says which and what to do."""


class AuthUnavailableError(Exception):
    """Whether the token is good cannot be known now; the caller should try again."""


class NotInClusterError(Exception):
    """The API server's address or the broker's own token is not where a pod has them."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller."""

    name: str
    """For the log: a service account's user name, or the name in the tokens file."""
    roles: frozenset[Role]
    namespaces: frozenset[str] = field(default_factory=frozenset)
    """Where producer and worker apply. Operator and admin reach every namespace."""
    every_namespace: bool = False
    pod_uid: str | None = None
    """The pod a token is bound to. Such a caller may only speak as that pod's worker."""

    def may(self, accepted: frozenset[Role], namespace: str | None) -> bool:
        """Whether one of the `accepted` roles is held and covers `namespace` (None: the call has no namespace)."""
        if Role.ADMIN in self.roles:
            return True
        held = self.roles & accepted
        if Role.OPERATOR in held:
            return True
        return bool(held) and namespace is not None and (self.every_namespace or namespace in self.namespaces)


class Authenticator(Protocol):
    """Turns the bearer token of a request into a caller."""

    def known(self, token: str | None) -> Principal | None:
        """Return the caller when that needs no waiting, else None: the fast path of every request.

        Raises UnauthenticatedError.
        """

    async def authenticate(self, token: str | None) -> Principal:
        """Return the caller. Raises UnauthenticatedError or AuthUnavailableError."""

    async def close(self) -> None:
        """Release connections."""


class Open:
    """`--auth none`: everyone may do everything. Refused on other than loopback addresses without `--insecure`."""

    _EVERYONE = Principal("anonymous", frozenset(Role), every_namespace=True)

    def known(self, token: str | None) -> Principal:
        """Return the one caller there is."""
        return self._EVERYONE

    async def authenticate(self, token: str | None) -> Principal:
        """Return the one caller there is."""
        return self._EVERYONE

    async def close(self) -> None:
        """Nothing to release."""
