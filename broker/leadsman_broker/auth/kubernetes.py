"""Kubernetes service-account tokens, checked by the API server and remembered for a while.

A service account of namespace X is producer and worker in X. Operator and admin are named identities. What the API
server said is kept by the token's digest: fresh for a minute, then renewed in the background; when the API server
is away, callers it has vouched for live on until their token expires, and only new ones are told to try again.
"""

import asyncio
import base64
import binascii
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from leadsman_broker.auth.principal import AuthUnavailableError, Principal, Role, UnauthenticatedError
from leadsman_broker.auth.static import digest
from leadsman_broker.auth.token_review import Reviewed, TokenReviewer

_FRESH_SECONDS = 60.0
_USABLE_SECONDS = 2 * _FRESH_SECONDS
_REFUSED_SECONDS = 10.0
_CAPACITY = 32_768
_REFUSED_CAPACITY = 1024
_MAX_TOKEN_LENGTH = 16_384
_SERVICE_ACCOUNT = "system:serviceaccount:"
_LOCAL_ROLES = frozenset({Role.PRODUCER, Role.WORKER})

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    checked_at: float
    expires_at: float
    """Wall clock; the token's own `exp`."""


@dataclass(frozen=True, slots=True)
class _Refused:
    why: str
    checked_at: float


class KubernetesAuth:
    """Callers vouched for by TokenReview."""

    def __init__(
        self,
        reviewer: TokenReviewer,
        *,
        operators: Iterable[str] = (),
        admins: Iterable[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._reviewer = reviewer
        self._operators = frozenset(operators)
        self._admins = frozenset(admins)
        self._monotonic = monotonic
        self._wall = wall
        self._entries: OrderedDict[bytes, _Known] = OrderedDict()
        # Kept apart, so that a flood of made-up tokens cannot push out the good ones.
        self._refused: OrderedDict[bytes, _Refused] = OrderedDict()
        self._reviews: dict[bytes, asyncio.Task[_Known | _Refused]] = {}

    def known(self, token: str | None) -> Principal | None:
        """Return the caller if the last answer about it is still usable. Raises UnauthenticatedError."""
        key = digest(_checked(token))
        now = self._monotonic()
        entry = self._entries.get(key)
        if entry is None:
            refused = self._refused.get(key)
            if refused is not None and now - refused.checked_at < _REFUSED_SECONDS:
                raise UnauthenticatedError(refused.why)
            return None
        age = now - entry.checked_at
        if age >= _USABLE_SECONDS or self._wall() >= entry.expires_at:
            return None
        if age >= _FRESH_SECONDS:
            self._renew(key, token or "")
        return entry.principal

    async def authenticate(self, token: str | None) -> Principal:
        """Return the caller, asking the API server if need be.

        Raises UnauthenticatedError and AuthUnavailableError.
        """
        found = self.known(token)
        if found is not None:
            return found
        text = _checked(token)
        key = digest(text)
        try:
            # Shielded: a caller that hangs up must not take the answer from the others who wait for it.
            answer = await asyncio.shield(self._renew(key, text))
        except AuthUnavailableError:
            stale = self._entries.get(key)
            if stale is None or self._wall() >= stale.expires_at:
                raise
            return stale.principal
        if isinstance(answer, _Refused):
            raise UnauthenticatedError(answer.why)
        return answer.principal

    async def close(self) -> None:
        """End reviews in flight and close the connections."""
        for review in list(self._reviews.values()):
            review.cancel()
        await asyncio.gather(*self._reviews.values(), return_exceptions=True)
        await self._reviewer.close()

    def _renew(self, key: bytes, token: str) -> asyncio.Task[_Known | _Refused]:
        """Start a review of the token, or join the one in flight."""
        review = self._reviews.get(key)
        if review is None:
            review = asyncio.get_running_loop().create_task(self._review(key, token))
            self._reviews[key] = review
            review.add_done_callback(lambda done: self._reviewed(key, done))
        return review

    def _reviewed(self, key: bytes, review: asyncio.Task[_Known | _Refused]) -> None:
        del self._reviews[key]
        if not review.cancelled() and (error := review.exception()) is not None:
            log.warning("token review failed", error=str(error))

    async def _review(self, key: bytes, token: str) -> _Known | _Refused:
        answer = await self._reviewer.review(token)
        if answer.username is None:
            self._entries.pop(key, None)
            refused = _Refused(_refusal(answer), self._monotonic())
            _remember(self._refused, key, refused, _REFUSED_CAPACITY)
            return refused
        known = _Known(self._principal(answer.username, answer.pod_uid), self._monotonic(), _expiry(token))
        _remember(self._entries, key, known, _CAPACITY)
        return known

    def _principal(self, name: str, pod_uid: str | None) -> Principal:
        roles: set[Role] = set()
        namespaces: frozenset[str] = frozenset()
        if name in self._admins:
            roles.add(Role.ADMIN)
        if name in self._operators:
            roles.add(Role.OPERATOR)
        if name.startswith(_SERVICE_ACCOUNT):
            roles |= _LOCAL_ROLES
            namespaces = frozenset({name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]})
        return Principal(name, frozenset(roles), namespaces, pod_uid=pod_uid)


_Entry = TypeVar("_Entry")


def _remember(entries: OrderedDict[bytes, _Entry], key: bytes, entry: _Entry, capacity: int) -> None:
    entries[key] = entry
    entries.move_to_end(key)
    while len(entries) > capacity:
        entries.popitem(last=False)


def _checked(token: str | None) -> str:
    if token is None:
        raise UnauthenticatedError(
            "send the header Authorization: Bearer TOKEN with a service account token for the broker's audience"
        )
    if len(token) > _MAX_TOKEN_LENGTH:
        raise UnauthenticatedError("this token is longer than any service account token")
    return token


def _refusal(answer: Reviewed) -> str:
    why = f" ({answer.error})" if answer.error else ""
    return (
        f"the API server does not accept this token for the broker's audience{why}; "
        "use a projected service account token with the audience the broker runs with"
    )


def _expiry(token: str) -> float:
    """Read the token's own `exp`, so that nothing the API server vouched for outlives it; infinity without one.

    The API server has verified the signature; this only reads the claim.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return float("inf")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims.get("exp", "inf"))
    except (binascii.Error, ValueError, TypeError, AttributeError):
        return float("inf")
