"""From an HTTP reply to a model or to an exception whose one line says what to do."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from leadsman.errors import (
    BrokerError,
    BrokerUnreachableError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from leadsman.wire.problems import Problem

Model = TypeVar("Model", bound=BaseModel)

_KINDS: dict[int, type[BrokerError]] = {
    400: InvalidRequestError,
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    408: UnavailableError,
    410: NotFoundError,
    413: InvalidRequestError,
    422: InvalidRequestError,
    429: UnavailableError,
    500: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
    507: UnavailableError,
}

_ADVICE = {
    401: "check the token (LEADSMAN_TOKEN_FILE or --token-file) and the broker's --audience",
    403: "the token may not do this in this namespace (LEADSMAN_NAMESPACE or --namespace)",
    507: "give the broker's volume more space",
}


def parse(model: type[Model], body: bytes, *, url: str) -> Model:
    """Return the reply. Raises BrokerUnreachableError when it is not one that a broker gives."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise BrokerUnreachableError(
            f"what answers at {url} is no Leadsman broker, or of an incompatible version "
            f"(no {model.__name__} in its reply); check LEADSMAN_BROKER_URL or --broker-url",
            url=url,
        ) from error


def failure(status: int, retry_after: str | None, body: bytes, *, url: str) -> Exception:
    """Return the exception for a reply that is no success; `retry_after` is its header."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        if status in {404, 405} or 300 <= status < 400 or status < 200:
            return BrokerUnreachableError(
                f"what answers at {url} is no Leadsman broker (HTTP {status}); "
                "check LEADSMAN_BROKER_URL or --broker-url",
                url=url,
            )
        problem = Problem(title=f"HTTP {status} without an explanation", status=status, code=f"http_{status}")
    kind = _KINDS.get(status, BrokerError)
    return kind(
        _line(problem, status),
        code=problem.code,
        status=status,
        errors=problem.errors,
        retry_after_s=_seconds(retry_after),
    )


def is_temporary(error: Exception) -> bool:
    """Whether the same call may succeed later without anyone changing it."""
    return isinstance(error, BrokerUnreachableError | UnavailableError)


def unreachable(url: str, why: str) -> BrokerUnreachableError:
    """Return the error of a connection that did not come about or broke."""
    return BrokerUnreachableError(
        f"cannot reach the broker at {url}: {why}; is it running, is LEADSMAN_BROKER_URL or --broker-url right?",
        url=url,
    )


def _line(problem: Problem, status: int) -> str:
    text = problem.detail or problem.title
    first = problem.errors[0] if problem.errors else None
    if isinstance(first, dict) and first.get("field") and str(first["field"]) not in text:
        text = f"{text} ({first['field']}: {first.get('message', '')})"
    advice = _ADVICE.get(status)
    return " ".join(f"{text[:2000]}{f'; {advice}' if advice else ''}".split())


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
