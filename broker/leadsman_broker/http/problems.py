"""Refusals of whole requests, as RFC 9457 problem documents whose text says what to do."""

from collections.abc import Mapping
from http import HTTPStatus

from pydantic import JsonValue, ValidationError

from leadsman.wire.problems import Problem, ProblemCode

PROBLEM_TYPE = b"application/problem+json"
_MAX_ERRORS = 20


class ProblemError(Exception):
    """A request that ends here. Raised anywhere below the dispatcher, which turns it into the reply."""

    def __init__(
        self,
        status: int,
        code: ProblemCode,
        detail: str,
        *,
        errors: list[JsonValue] | None = None,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors or []
        self.headers = dict(headers or {})
        self.close = close
        """Whether the connection must end, because the rest of the request was not read."""

    def body(self) -> bytes:
        """Return the document."""
        problem = Problem(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            code=self.code,
            detail=self.detail,
            errors=self.errors,
        )
        return problem.model_dump_json(exclude_none=True).encode()


def invalid_request(error: ValidationError) -> ProblemError:
    """Name each wrong field. The values are left out: they may be large, or secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    entries: list[JsonValue] = [
        {"field": ".".join(str(part) for part in item["loc"]), "message": item["msg"], "type": item["type"]}
        for item in found[:_MAX_ERRORS]
    ]
    first = found[0]
    where = ".".join(str(part) for part in first["loc"]) or "the body"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return ProblemError(
        422,
        ProblemCode.INVALID_REQUEST,
        f"{where}: {first['msg']}{more}; the schema of each request is at /v1/openapi.json",
        errors=entries,
    )


def invalid_json(why: str) -> ProblemError:
    """Refuse a body that is not JSON as RFC 8259 and 7493 have it."""
    return ProblemError(400, ProblemCode.INVALID_JSON, f"the body is not usable JSON: {why}")
