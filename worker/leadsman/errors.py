"""What the SDK raises. Each class has a stable `code` that a program may branch on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leadsman.wire.runs import RunView
    from leadsman.wire.tasks import SubmitResult, TaskSubmit, TaskView


@dataclass(frozen=True, slots=True)
class Submission:
    """How far a submission came that ended in an error.

    `remaining` are the tasks without an answer, each with its idempotency key: some of them may have been accepted,
    and submitting exactly these again never doubles one.
    """

    results: "tuple[SubmitResult, ...]"
    remaining: "tuple[TaskSubmit, ...]"


class LeadsmanError(Exception):
    """Base of every error of the SDK. The message is one line that says what to do."""

    code: str = "error"
    submission: Submission | None = None
    """Set on what `submit` and `submit_many` raise once something was sent."""


class ConfigurationError(LeadsmanError):
    """A setting, a handler or a module is not what it must be; nothing was sent."""

    code = "configuration"


class InvalidValueError(LeadsmanError, ValueError):
    """A payload, result or checkpoint that cannot travel: not JSON, or too large."""

    code = "invalid_value"


class InvalidPayloadError(InvalidValueError):
    """A payload that does not fit the type which the handler's signature names."""

    code = "invalid_payload"


class BrokerUnreachableError(LeadsmanError):
    """No answer came from the broker, or none that a broker gives. `url` says where it was looked for."""

    code = "broker_unreachable"

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class BrokerError(LeadsmanError):
    """The broker answered with a problem document. `code` is the broker's own, `status` the HTTP status."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        errors: Sequence[Any] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.errors = list(errors)
        self.retry_after_s = retry_after_s


class InvalidRequestError(BrokerError):
    """The broker refuses the shape or the size of what was sent."""


class UnauthenticatedError(BrokerError):
    """No token, or one the broker does not accept."""


class ForbiddenError(BrokerError):
    """The token is good and does not allow this."""


class NotFoundError(BrokerError):
    """No such task, capability or address."""


class UnavailableError(BrokerError):
    """The broker cannot do it now (starting, stopping, disk full); the same call may succeed later."""


class WaitTimeoutError(LeadsmanError, TimeoutError):
    """The task was not settled in the time given; it goes on, and `view` is how it stood last."""

    code = "wait_timeout"

    def __init__(self, message: str, *, view: "TaskView") -> None:
        super().__init__(message)
        self.view = view


class RunTimeoutError(LeadsmanError, TimeoutError):
    """The run did not end in the time given; it goes on, and `view` is how it stood last."""

    code = "run_timeout"

    def __init__(self, message: str, *, view: "RunView") -> None:
        super().__init__(message)
        self.view = view


class TaskFailedError(LeadsmanError):
    """The task ended without a result: dead, expired or cancelled. `view` tells why."""

    code = "task_failed"

    def __init__(self, message: str, *, view: "TaskView") -> None:
        super().__init__(message)
        self.view = view
