"""Exit codes that scripts can rely on. docs/cli.md lists them."""

from enum import IntEnum

from leadsman.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    InvalidRequestError,
    InvalidValueError,
    LeadsmanError,
    TaskFailedError,
    UnavailableError,
    WaitTimeoutError,
)


class Exit(IntEnum):
    """What became of a command."""

    OK = 0
    ERROR = 1
    USAGE = 2
    """The command, a setting or a payload is not what it must be; nothing was done."""
    REFUSED = 3
    """A queue is full; the same command may succeed later."""
    UNREACHABLE = 4
    """No broker, or one that cannot answer now; the same command may succeed later."""
    TASK_FAILED = 5
    """A task that was waited for ended without a result."""
    TIMED_OUT = 6
    """A task that was waited for is still going."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141


_KINDS: tuple[tuple[type[LeadsmanError], Exit], ...] = (
    (ConfigurationError, Exit.USAGE),
    (InvalidValueError, Exit.USAGE),
    (InvalidRequestError, Exit.USAGE),
    (BrokerUnreachableError, Exit.UNREACHABLE),
    (UnavailableError, Exit.UNREACHABLE),
    (TaskFailedError, Exit.TASK_FAILED),
    (WaitTimeoutError, Exit.TIMED_OUT),
)


def exit_code(error: LeadsmanError) -> Exit:
    """Return the exit code that an error ends the command with."""
    return next((code for kind, code in _KINDS if isinstance(error, kind)), Exit.ERROR)
