"""What a handler knows of its task, and what it may say while it runs."""

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from leadsman.amounts import micros_of, tokens_of
from leadsman.budget import Left, RemainingBudget, budget_of
from leadsman.encoding import MAX_RESULT_BYTES, encode
from leadsman.errors import InvalidValueError
from leadsman.outcomes import TaskCancelled

if TYPE_CHECKING:
    from leadsman.wire.tasks import TaskClass, TaskSubmit

MAX_ONCE_BYTES = 16_384
"""The broker's limit for a once value, as compact UTF-8."""
ONCE_KEY_PATTERN = r"^[A-Za-z0-9_.:/-]+$"
"""The wire's pattern, repeated so that a handler's module loads without pydantic; a test compares them."""
_MAX_KEY = 128


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
    delivery: int = 1
    resume: Any = None
    age_seconds: float = 0.0
    maybe_ran: bool = False
    traceparent: str | None = None
    run_id: str | None = None
    once: Mapping[str, Any] = field(default_factory=dict)
    """What earlier attempts did with `once`, by key."""


class Attempt(Protocol):
    """What stands behind a context: the worker's lease, or the fake of `leadsman.testing`."""

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""

    @property
    def left(self) -> Left | None:
        """What the attempt may still use, as far as is known; None without a limit."""

    def save(self, encoded: str) -> Future[None]:
        """Store a checkpoint, given as JSON; done once durable, fails with TaskCancelled when the lease is lost."""

    def progress(self) -> None:
        """Note a step of the work."""

    def confirm(self) -> Future[None]:
        """Done while the lease is surely ours, else with the next heartbeat; fails as `save` does."""

    def remember(self, key: str, encoded: str) -> Future[Any]:
        """Store a once value, given as JSON; gives the one that counts, and fails as `save` does."""

    def follow_up(self, task: "TaskSubmit") -> None:
        """Keep a task that is submitted with the ack."""

    def use(self, tokens: int, cost_micros: int) -> None:
        """Add to what the attempt has used; sent with the next heartbeat or with the outcome."""


class TaskContext:
    """What async and sync handlers share."""

    def __init__(self, facts: TaskFacts, attempt: Attempt, make_log: Callable[[], Any]) -> None:
        self._facts = facts
        self._attempt = attempt
        self._make_log = make_log
        self._log: Any = None
        self._done_once = dict(facts.once)

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
    def delivery(self) -> int:
        """Grows with every time that the task is handed to a worker, whatever became of the time before."""
        return self._facts.delivery

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
    def maybe_ran(self) -> bool:
        """Whether this may have run before, even to its end, without the broker knowing.

        The broker was restored from a backup, and the task is older: look before doing what must not be done twice.
        """
        return self._facts.maybe_ran

    @property
    def run_id(self) -> str | None:
        """The run that the task belongs to, if it does."""
        return self._facts.run_id

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

    def follow_up(
        self,
        capability: str,
        payload: Any = None,
        *,
        name: str = "default",
        key: str | None = None,
        tenant: str | None = None,
        task_class: "TaskClass | str" = "background",
        priority: int | None = None,
        delay_seconds: float = 0.0,
        ttl_seconds: float | None = None,
        max_attempts: int | None = None,
    ) -> None:
        """Submit a task when this one completes: in the same transaction, so with it or not at all.

        It belongs to this task's run, and to its tenant unless another is named. A full queue does not refuse it.
        An attempt that fails or is given back submits nothing. At most 100. Raises InvalidValueError.
        """
        from leadsman.client.submission import make_task  # noqa: PLC0415  it loads pydantic
        from leadsman.tracing import current_traceparent  # noqa: PLC0415

        task = make_task(
            capability,
            payload,
            name=name,
            key=key,
            tenant=self.tenant if tenant is None else tenant,
            task_class=task_class,
            priority=priority,
            delay_seconds=delay_seconds,
            ttl_seconds=ttl_seconds,
            max_attempts=max_attempts,
        )
        traceparent = current_traceparent() or self.traceparent
        self._attempt.follow_up(task.model_copy(update={"traceparent": traceparent}) if traceparent else task)

    def progress(self) -> None:
        """Say that the work goes on; told with the next heartbeat, and free: call it at every step.

        Where the capability has a `progressTimeoutSeconds`, an attempt that shows none for so long, by this or by a
        checkpoint, loses its task. Safe from every thread.
        """
        self._attempt.progress()

    def report_usage(self, *, tokens: int = 0, cost: Decimal | float | str = 0) -> None:
        """Add to what this attempt has used: tokens, and money (`"0.0125"`, a Decimal, a float).

        Call it after every paid call; nothing is sent at once, it rides on the next heartbeat or on the outcome.
        Safe from every thread. Raises InvalidValueError for a negative, fractional or endless amount.
        """
        self._attempt.use(tokens_of(tokens), micros_of(cost))

    @property
    def remaining_budget(self) -> RemainingBudget | None:
        """How much more this attempt may use; None when neither its run nor its queue nor its tenant has a limit.

        As of the last heartbeat, less what was reported since. Others who run under the same limit use it too, so a
        paid call that fits now may come too late; ask before each. `remaining_budget.allows(tokens=2000)`.
        """
        return budget_of(self._attempt.left)

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

    def _remember(self, key: str, value: Any) -> Future[Any]:
        return self._attempt.remember(key, encode(value, f"the value of {key!r}", MAX_ONCE_BYTES))


def _check_key(key: str) -> None:
    if len(key) > _MAX_KEY or not re.fullmatch(ONCE_KEY_PATTERN, key):
        raise InvalidValueError(f"{key!r} is no key: letters, digits and _ . : / - up to {_MAX_KEY}")


class Context(TaskContext):
    """Given to async handlers."""

    def __init__(self, facts: TaskFacts, attempt: Attempt, make_log: Callable[[], Any]) -> None:
        super().__init__(facts, attempt, make_log)
        self._once_locks: dict[str, asyncio.Lock] = {}

    async def once(self, key: str, effect: Callable[[], Any]) -> Any:
        """Call `effect`, a coroutine function or a plain one, unless an attempt of this task did so under `key`.

        Returns what it returned, now or then: JSON of at most 16 KiB. Once this returns the value is durable and no
        later attempt calls `effect` again. When a worker dies between the effect and its record, the next attempt
        does it again: give `idempotency_key` and `key` to what it calls. An effect that raises is not recorded.
        An attempt that was not renewed for a lease, as in a process that was stopped, first asks the broker whether
        the task is still its own. A task keeps 64 keys. Raises InvalidValueError for what cannot be kept.
        """
        _check_key(key)
        async with self._once_locks.setdefault(key, asyncio.Lock()):
            if key not in self._done_once:
                await asyncio.wrap_future(self._attempt.confirm())
                value = effect()
                if inspect.isawaitable(value):
                    value = await value
                self._done_once[key] = await asyncio.wrap_future(self._remember(key, value))
            return self._done_once[key]

    async def checkpoint(self, state: Any) -> None:
        """Store `state` (JSON, at most 64 KiB) for the next attempt; it is durable when this returns.

        While the broker cannot be reached this waits. Raises InvalidValueError for a state that cannot be stored.
        """
        await asyncio.wrap_future(self._save(state))


class SyncContext(TaskContext):
    """Given to sync handlers, which run in a thread."""

    def __init__(self, facts: TaskFacts, attempt: Attempt, make_log: Callable[[], Any]) -> None:
        super().__init__(facts, attempt, make_log)
        self._once_locks: dict[str, threading.Lock] = {}

    def once(self, key: str, effect: Callable[[], Any]) -> Any:
        """Call `effect` unless an attempt of this task did so under `key`; see `Context.once`."""
        _check_key(key)
        with self._once_locks.setdefault(key, threading.Lock()):
            if key not in self._done_once:
                self._attempt.confirm().result()
                self._done_once[key] = self._remember(key, effect()).result()
            return self._done_once[key]

    def checkpoint(self, state: Any) -> None:
        """Store `state` (JSON, at most 64 KiB) for the next attempt; it is durable when this returns.

        While the broker cannot be reached this waits. Raises InvalidValueError for a state that cannot be stored,
        and TaskCancelled when the handler is to stop: by then the state is stored, unless the lease is lost.
        """
        self._save(state).result()
        self.raise_if_cancelled()
