"""What a handler knows of its task, and what it may say while it runs."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from leadsman.amounts import micros_of, tokens_of
from leadsman.encoding import MAX_RESULT_BYTES, encode
from leadsman.outcomes import TaskCancelled


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The task as it was leased; the same for the whole attempt."""

    task_id: str
    namespace: str
    capability: str
    name: str = "default"
    payload: Any = None
    tenant: str = ""
    attempt: int = 1
    max_attempts: int = 5
    resume: Any = None
    age_seconds: float = 0.0
    traceparent: str | None = None


class Attempt(Protocol):
    """What stands behind a context: the worker's lease, or the fake of `leadsman.testing`."""

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""

    def save(self, encoded: str) -> Future[None]:
        """Store a checkpoint, given as JSON; done once durable, fails with TaskCancelled when the lease is lost."""

    def use(self, tokens: int, cost_micros: int) -> None:
        """Add to what the attempt has used; sent with the next heartbeat or with the outcome."""


class TaskContext:
    """What async and sync handlers share."""

    def __init__(self, facts: TaskFacts, attempt: Attempt, make_log: Callable[[], Any]) -> None:
        self._facts = facts
        self._attempt = attempt
        self._make_log = make_log
        self._log: Any = None

    @property
    def payload(self) -> Any:
        """What the producer sent."""
        return self._facts.payload

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._facts.task_id

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt and after a redrive: give it to whatever must not happen twice."""
        return self._facts.task_id

    @property
    def attempt(self) -> int:
        """1 for the first; failures and lost workers count, releases do not."""
        return self._facts.attempt

    @property
    def max_attempts(self) -> int:
        """After this many the task is dead."""
        return self._facts.max_attempts

    @property
    def tenant(self) -> str:
        """On whose behalf; empty when the producer named nobody."""
        return self._facts.tenant

    @property
    def namespace(self) -> str:
        """Where the task was submitted."""
        return self._facts.namespace

    @property
    def capability(self) -> str:
        """The queue it came from."""
        return self._facts.capability

    @property
    def name(self) -> str:
        """Which handler of the capability was asked for."""
        return self._facts.name

    @property
    def resume(self) -> Any:
        """The last checkpoint of any earlier attempt, or None: begin there."""
        return self._facts.resume

    @property
    def age_seconds(self) -> float:
        """How long ago the task was accepted, when this attempt began."""
        return self._facts.age_seconds

    @property
    def traceparent(self) -> str | None:
        """The producer's trace, as the W3C header."""
        return self._facts.traceparent

    @property
    def cancelled(self) -> bool:
        """True once the task was cancelled, its lease lost, or the worker's time to drain is over."""
        return self._attempt.cancelled

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelled when `cancelled`; for loops in sync handlers."""
        if self._attempt.cancelled:
            raise TaskCancelled

    def report_usage(self, *, tokens: int = 0, cost: Decimal | float | str = 0) -> None:
        """Add to what this attempt has used: tokens, and money (`"0.0125"`, a Decimal, a float).

        Call it after every paid call; nothing is sent at once, it rides on the next heartbeat or on the outcome.
        Safe from every thread. Raises InvalidValueError for a negative, fractional or endless amount.
        """
        self._attempt.use(tokens_of(tokens), micros_of(cost))

    @property
    def log(self) -> Any:
        """A structlog logger that already carries task, attempt and capability."""
        if self._log is None:
            self._log = self._make_log()
        return self._log

    def __repr__(self) -> str:
        facts = self._facts
        return f"<{type(self).__name__} {facts.capability}/{facts.name} {facts.task_id} attempt {facts.attempt}>"

    def _save(self, state: Any) -> Future[None]:
        return self._attempt.save(encode(state, "the checkpoint", MAX_RESULT_BYTES))


class Context(TaskContext):
    """Given to async handlers."""

    async def checkpoint(self, state: Any) -> None:
        """Store `state` (JSON, at most 64 KiB) for the next attempt; it is durable when this returns.

        While the broker cannot be reached this waits. Raises InvalidValueError for a state that cannot be stored.
        """
        await asyncio.wrap_future(self._save(state))


class SyncContext(TaskContext):
    """Given to sync handlers, which run in a thread."""

    def checkpoint(self, state: Any) -> None:
        """Store `state` (JSON, at most 64 KiB) for the next attempt; it is durable when this returns.

        While the broker cannot be reached this waits. Raises InvalidValueError for a state that cannot be stored,
        and TaskCancelled when the handler is to stop: by then the state is stored, unless the lease is lost.
        """
        self._save(state).result()
        self.raise_if_cancelled()
