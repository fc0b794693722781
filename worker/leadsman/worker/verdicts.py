"""How an attempt ended, as what is said to the broker. Pure: exceptions and values in, a verdict out."""

import asyncio
import math
import os
import signal
from dataclasses import dataclass
from typing import Any

from leadsman.encoding import MAX_RESULT_BYTES, normalised
from leadsman.errors import InvalidPayloadError, InvalidValueError
from leadsman.outcomes import Dead, RateLimited, Release, Retry, TaskCancelled
from leadsman.wire.tasks import TaskError
from leadsman.worker.holding import StopReason

MAX_TYPE = 200
MAX_MESSAGE = 4096
MAX_REASON = 200
MAX_DELAY_SECONDS = 31_536_000.0

UNKNOWN_HANDLER_RETRY_SECONDS = 10.0
"""A roll-out lasts about this long; the attempts bound the rest."""


@dataclass(frozen=True, slots=True)
class Done:
    """Ack."""

    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Nack."""

    error: TaskError
    retry: bool = True
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Release."""

    reason: str
    delay_seconds: float = 0.0
    spread: bool = False
    """Some of the delay is added at random, so that what was refused together does not come back together."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The lease is somebody else's; there is nothing to say."""


Verdict = Done | Failed | GivenBack | Gone


def returned(value: Any) -> Verdict:
    """Judge a handler that returned. A result that cannot be kept is dead at once: a repeat only costs."""
    try:
        return Done(normalised(value, "the result", MAX_RESULT_BYTES))
    except InvalidValueError as error:
        return Failed(task_error("InvalidResult", str(error)), retry=False)


def raised(error: BaseException, reason: StopReason | None) -> Verdict:
    """Judge a handler that raised, having been told to stop for `reason` or not at all."""
    message = _message(error)
    if isinstance(error, Retry):
        return Failed(task_error("Retry", message), retry_after_seconds=_seconds(error.after_s))
    if isinstance(error, Dead):
        return Failed(task_error("Dead", message), retry=False)
    if isinstance(error, Release):
        delay = _seconds(error.after_s) or 0.0
        return GivenBack(_text(message, MAX_REASON), delay, spread=isinstance(error, RateLimited))
    if isinstance(error, InvalidPayloadError):
        return Failed(task_error("InvalidPayload", message), retry=False)
    if isinstance(error, asyncio.CancelledError | TaskCancelled) and reason is not None:
        if reason is StopReason.NO_PROGRESS:
            return Failed(
                task_error("NoProgress", "the handler showed no progress for longer than its capability allows")
            )
        return Gone() if reason is StopReason.LEASE_LOST else GivenBack(str(reason))
    return Failed(task_error(type(error).__qualname__, message))


def unknown_handler(capability: str, name: str, known: tuple[str, ...]) -> Verdict:
    """Judge a task whose handler this worker does not have: a newer worker may, so it is tried again."""
    listed = ", ".join(known) or "none"
    message = f"this worker has no handler {name!r} for {capability}; it has {listed}"
    return Failed(task_error("UnknownHandler", message), retry_after_seconds=UNKNOWN_HANDLER_RETRY_SECONDS)


def crashed(status: int | None, reason: StopReason | None) -> Verdict:
    """Judge an isolated handler whose process ended without a word, with this wait status if it is known."""
    if reason is not None:
        return raised(TaskCancelled(), reason)
    return Failed(task_error("crash", f"the handler's process {_ending(status)}"))


def timed_out(seconds: float) -> Verdict:
    """Judge an isolated handler that was killed for its time."""
    return Failed(task_error("timeout", f"the handler did not end within {seconds:g} s and was killed"))


def _ending(status: int | None) -> str:
    if status is None:
        return "ended, and nobody knows how"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit code {code} before it gave a result"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def task_error(kind: str, message: str) -> TaskError:
    """Return an error that fits the wire, whatever the handler put into it."""
    return TaskError(type=_text(kind, MAX_TYPE) or "Error", message=_text(message, MAX_MESSAGE))


def _text(text: str, limit: int) -> str:
    """Cut to `limit` and make it text that every store can hold."""
    sound = text.encode("utf-8", "replace").decode().replace("\x00", "")
    return sound if len(sound) <= limit else sound[: limit - 1] + "…"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  the handler's own __str__ may do anything
        return "(its message cannot be shown)"


def _seconds(given: Any) -> float | None:
    """Return a delay within bounds; None for None and whatever else is no number."""
    try:
        seconds = float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(seconds) else min(max(0.0, seconds), MAX_DELAY_SECONDS)
