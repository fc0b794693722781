"""The API as an ASGI application: find the call, check the caller, answer, count."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from leadsman.wire.problems import ProblemCode
from leadsman_broker.auth import Authenticator, AuthUnavailableError, Principal, UnauthenticatedError
from leadsman_broker.engine import ClosingError, StorageBusyError, StorageLowError
from leadsman_broker.http.exchange import (
    CallerGoneError,
    Exchange,
    Receive,
    Response,
    Scope,
    Send,
    problem_response,
)
from leadsman_broker.http.pending import Begin, Handled, Pending
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.routing import Route, Routes
from leadsman_broker.metrics import HttpMetrics

MAX_BODY_BYTES = 16 * 1024 * 1024

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DirectCall:
    """What the head of a request asks for, whatever its body."""

    route: Route
    begin: Begin
    namespace: str
    path: str
    token: str | None


class Api:
    """Answers every request with a reply or with a problem document; nothing goes out as a bare 500."""

    def __init__(
        self,
        routes: Iterable[Route],
        authenticator: Authenticator,
        metrics: HttpMetrics,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.routes = Routes(routes)
        self._authenticator = authenticator
        self._metrics = metrics
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"this server speaks HTTP only, not {scope['type']}")
        started = time.perf_counter()
        exchange = Exchange(scope, receive, send, self.max_body_bytes)
        route: Route | None = None
        status = 200
        try:
            route, exchange.path = self.routes.find(scope["method"], scope["path"])
            if route.roles:
                await self._authorize(exchange, route)
            response = await route.handler(exchange)
            if response is not None:
                status = response.status
                await exchange.reply(response)
        except CallerGoneError:
            status = 499
        except asyncio.CancelledError:
            status = 499
            raise
        except Exception as error:  # noqa: BLE001 - logged there, when it is nothing that a caller did
            refused = _refusal(error, scope["method"], scope["path"])
            status = refused.status
            await exchange.reply(refused)
        finally:
            took = None if exchange.parked else time.perf_counter() - started
            self._metrics.answered(scope["method"], route.template if route else "unknown", status, took)

    # The same for a request that the protocol has whole in its hands, and without a task

    def direct(self, method: str, path: str, authorization: str | None) -> DirectCall | None:
        """Return what a request with this head asks for; None when its handler needs a task."""
        try:
            route, values = self.routes.find(method, path)
        except ProblemError:
            return None
        if not isinstance(route.handler, Handled):
            return None
        return DirectCall(route, route.handler.begin, values["namespace"], path, _bearer(authorization))

    def may_send(self, call: DirectCall) -> bool:
        """Whether its caller is known and may make such a call: only then is a body worth waiting for."""
        try:
            principal = self._authenticator.known(call.token)
        except UnauthenticatedError:
            return False
        return principal is not None and principal.may(call.route.roles, call.namespace)

    def begin(self, call: DirectCall, body: bytes) -> Pending | Response | None:
        """Begin a call, or refuse it; None when who calls cannot be known without waiting."""
        try:
            principal = self._authenticator.known(call.token)
            if principal is None:
                return None
            if not principal.may(call.route.roles, call.namespace):
                return problem_response(_forbidden(principal, call.route, call.namespace))
            return call.begin(call.namespace, principal, body)
        except Exception as error:  # noqa: BLE001 - logged there, when it is nothing that a caller did
            return _refusal(error, call.route.method, call.path)

    def finish(self, call: DirectCall, pending: Pending) -> Response:
        """Return the reply to a call whose outcome is there."""
        try:
            return pending.answer(pending.outcome.result())
        except Exception as error:  # noqa: BLE001 - logged there, when it is nothing that a caller did
            return _refusal(error, call.route.method, call.path)

    def count(self, call: DirectCall, status: int, seconds: float | None) -> None:
        """Count a call that ended; `seconds` None: it was parked."""
        self._metrics.answered(call.route.method, call.route.template, status, seconds)

    async def _authorize(self, exchange: Exchange, route: Route) -> None:
        """Find out who calls and whether the call is theirs to make.

        Raises ProblemError 403, UnauthenticatedError and AuthUnavailableError.
        """
        token = _bearer(exchange.header(b"authorization"))
        principal = self._authenticator.known(token)
        if principal is None:
            principal = await self._authenticator.authenticate(token)
        if not principal.may(route.roles, exchange.path.get("namespace")):
            raise _forbidden(principal, route, exchange.path.get("namespace"))
        exchange.principal = principal


def _refusal(error: Exception, method: str, path: str) -> Response:
    """Return the reply that tells a caller of an error. One that is nothing a caller did is logged."""
    if isinstance(error, ProblemError):
        return problem_response(error)
    if isinstance(error, UnauthenticatedError):
        headers = {"www-authenticate": "Bearer"}
        return problem_response(ProblemError(401, ProblemCode.UNAUTHENTICATED, str(error), headers=headers))
    if isinstance(error, AuthUnavailableError):
        return problem_response(
            ProblemError(503, ProblemCode.UNAVAILABLE, str(error), headers={"retry-after": "5"})
        )
    if isinstance(error, ClosingError):
        return _closing()
    if isinstance(error, StorageLowError):
        return _storage_low()
    if isinstance(error, StorageBusyError):
        return _storage_busy()
    log.error("a request failed", method=method, path=path, exc_info=error)
    return _internal()


def _bearer(header: str | None) -> str | None:
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _forbidden(principal: Principal, route: Route, namespace: str | None) -> ProblemError:
    wanted = " or ".join(sorted(role.value for role in route.roles))
    where = f" in namespace {namespace}" if namespace is not None else ""
    has = ", ".join(sorted(role.value for role in principal.roles)) or "no role"
    reach = "every namespace" if principal.every_namespace else ", ".join(sorted(principal.namespaces)) or "none"
    return ProblemError(
        403,
        ProblemCode.FORBIDDEN,
        f"{principal.name} may not do this{where}: it needs the role {wanted} there "
        f"and has {has} (namespaces: {reach})",
    )


def _closing() -> Response:
    return problem_response(
        ProblemError(
            503,
            ProblemCode.UNAVAILABLE,
            "the broker is shutting down; try again, nothing of this request was done",
            headers={"retry-after": "1"},
            close=True,
        )
    )


def _storage_low() -> Response:
    return problem_response(
        ProblemError(
            507,
            ProblemCode.STORAGE_FULL,
            "the broker's disk is nearly full, so it takes no new work and finishes what it has; "
            "enlarge the volume or shorten the retention of completed tasks",
            headers={"retry-after": "30"},
        )
    )


def _storage_busy() -> Response:
    return problem_response(
        ProblemError(
            503,
            ProblemCode.UNAVAILABLE,
            "the broker has waited for its disk, or for another program that locks its file, for several seconds, "
            "so it takes no new work; try again, nothing of this request was done",
            headers={"retry-after": "5"},
        )
    )


def _internal() -> Response:
    return problem_response(
        ProblemError(500, ProblemCode.INTERNAL, "the broker failed to handle this request; its log has the cause")
    )
