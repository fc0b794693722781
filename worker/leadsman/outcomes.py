"""What a handler may raise to say how its attempt ended, other than by returning a result.

Any other exception is a failure: the attempt is counted and the task tried again after its backoff.
"""


class Outcome(Exception):  # noqa: N818  these are answers, not errors
    """Base of the answers below; not raised by itself."""


class Retry(Outcome):
    """The attempt failed and counts; try again, not before `after_s` seconds when given.

    The capability's backoff still applies when it is longer. The last attempt's failure ends in the dead-letter
    queue as any other.
    """

    def __init__(self, message: str = "", *, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


class Dead(Outcome):
    """No attempt can succeed: put the task into the dead-letter queue now."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class Release(Outcome):
    """Not now, and nobody's fault: give the task back for `after_s` seconds without spending an attempt."""

    def __init__(self, reason: str = "", *, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.after_s = after_s


class RateLimited(Release):
    """A provider said "too many requests": give the task back for `after_s` seconds without spending an attempt.

    `after_s` is what the provider's Retry-After says. Up to a quarter is added, so that tasks which were refused
    together do not come back together.
    """

    def __init__(self, reason: str = "rate limited", *, after_s: float = 30.0) -> None:
        super().__init__(reason, after_s=after_s)


class TaskCancelled(BaseException):
    """The task was cancelled, its lease lost or the worker is going: stop now, the outcome is no longer yours.

    Raised inside sync handlers by `raise_if_cancelled` and `checkpoint`. Not an `Exception`, so that a handler's
    own `except Exception` does not swallow it. Async handlers see `asyncio.CancelledError` instead.
    """
