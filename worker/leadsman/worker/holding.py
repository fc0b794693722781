"""The leases this worker holds: the one place that heartbeats, handlers and settlements agree on."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from leadsman.amounts import MAX_USAGE
from leadsman.budget import Left, less
from leadsman.context import TaskFacts
from leadsman.errors import InvalidValueError
from leadsman.outcomes import TaskCancelled
from leadsman.wire.costs import RemainingBudget, Usage
from leadsman.wire.leases import MAX_FOLLOW_UPS, Lease
from leadsman.wire.tasks import TaskSubmit


class StopReason(StrEnum):
    """Why a handler is told to stop."""

    LEASE_LOST = "lease_lost"
    CANCELLED = "cancelled"
    UNREACHABLE = "unreachable"
    """The broker could not be reached for longer than the capability allows."""
    NO_PROGRESS = "no_progress"
    """The lease is not renewed any more, because the handler shows no progress."""
    DRAINING = "draining"


@dataclass(eq=False, slots=True)
class Unsaved:
    """A checkpoint that is not known to be durable yet."""

    encoded: str
    """JSON."""
    waiter: Future[None] = field(default_factory=Future)

    @property
    def state(self) -> Any:
        """The state as a value."""
        return json.loads(self.encoded)


class Held:
    """One lease, from reading its reply to the answer to its settlement. Safe to use from every thread."""

    def __init__(
        self,
        lease: Lease,
        wake: Callable[[], None],
        remember: "Remember | None" = None,
        asked_at: float | None = None,
    ) -> None:
        """`asked_at` is when the call that brought the lease was sent, by the monotonic clock; else now."""
        self.lease = lease
        self.token = lease.token
        self.facts = _facts(lease)
        self.renewed_at = time.monotonic()
        self._ours_until = (self.renewed_at if asked_at is None else asked_at) + lease.expires_in_seconds
        """Surely, whatever this process slept through: the reply may have lain unread while it stood still."""
        self.settling = False
        """The handler has ended; only the broker's answer is awaited, and nobody is left to be told to stop."""
        self._wake = wake
        self._remember = remember
        self._storing: list[Future[None]] = []
        self._progress = 0
        self._unsure: list[Future[None]] = []
        self._follow_ups: list[TaskSubmit] = []
        self._lock = threading.Lock()
        self._unsaved: list[Unsaved] = []
        self._usage: Usage | None = None
        self._booked: Usage | None = None
        self._told_left = _left(lease.remaining_budget)
        self._told_usage: Usage | None = None
        """What of our usage is counted in it."""
        self._on_budget: Callable[[], None] | None = None
        self._reason: StopReason | None = None
        self._on_stop: Callable[[], None] | None = None
        self._on_lost: Callable[[], None] | None = None

    @property
    def reason(self) -> StopReason | None:
        """Why the handler was told to stop, if it was."""
        return self._reason

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""
        return self._reason is not None

    @property
    def lost(self) -> bool:
        """Whether the broker said that this lease is no longer ours."""
        return self._reason is StopReason.LEASE_LOST

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the handler is to stop, from the thread that found out; at once if it was told."""
        with self._lock:
            self._on_stop = callback
            told = self._reason is not None
        if told:
            callback()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the lease is lost, whatever the handler was told before."""
        self._on_lost = callback

    def stop(self, reason: StopReason) -> bool:
        """Tell the handler to stop; return whether that was news. A lost lease outweighs every other reason."""
        with self._lock:
            if self._reason is not None and (reason is not StopReason.LEASE_LOST or self.lost):
                return False
            first = self._reason is None
            self._reason = reason
            callback = self._on_stop
            lost = reason is StopReason.LEASE_LOST
            dropped = [unsaved.waiter for unsaved in self._take_all()] + self._take_unsure() if lost else []
        for waiter in dropped:
            _fail(waiter, TaskCancelled("the lease is lost"))
        if callback is not None and first:
            callback()
        if reason is StopReason.LEASE_LOST and self._on_lost is not None:
            self._on_lost()
        return True

    @property
    def heartbeat_seconds(self) -> float:
        """How often it must be renewed, and its progress told."""
        gate = self.lease.progress_timeout_seconds
        return self.lease.heartbeat_seconds if gate is None else min(self.lease.heartbeat_seconds, gate / 3)

    @property
    def progress_seq(self) -> int:
        """Grows with every step that the handler reports; 0 before the first."""
        return self._progress

    def progress(self) -> None:
        """Note a step of the work; told with the next heartbeat."""
        with self._lock:
            self._progress += 1

    @property
    def follow_ups(self) -> list[TaskSubmit]:
        """What is submitted with the ack."""
        with self._lock:
            return list(self._follow_ups)

    def follow_up(self, task: TaskSubmit) -> None:
        """Keep a task that is submitted with the ack. Raises InvalidValueError when there are too many."""
        with self._lock:
            if len(self._follow_ups) >= MAX_FOLLOW_UPS:
                raise InvalidValueError(
                    f"a task has at most {MAX_FOLLOW_UPS} follow-ups; submit one that makes the rest"
                )
            self._follow_ups.append(task)

    def renewed(self, asked_at: float) -> None:
        """Note that the broker renewed it, at a heartbeat sent at this moment of the monotonic clock."""
        with self._lock:
            self.renewed_at = asked_at
            self._ours_until = asked_at + self.lease.lease_seconds
            sure, self._unsure = self._unsure, []
        for each in sure:
            each.set_result(None)

    def confirm(self) -> Future[None]:
        """Done while the lease is surely ours, else with the next heartbeat; fails with TaskCancelled when lost."""
        sure: Future[None] = Future()
        sure.set_running_or_notify_cancel()
        with self._lock:
            if self.lost:
                sure.set_exception(TaskCancelled("the lease is lost"))
            elif time.monotonic() < self._ours_until:
                sure.set_result(None)
            else:
                self._unsure.append(sure)
        if not sure.done():
            self._wake()
        return sure

    @property
    def unsure(self) -> bool:
        """Whether somebody waits to hear that it is still ours."""
        return bool(self._unsure)

    def remember(self, key: str, encoded: str) -> Future[Any]:
        """Store what was done, given as JSON, for later attempts; gives the value that counts."""
        assert self._remember is not None  # noqa: S101  only a test's lease has nobody to tell
        told: Future[Any] = Future()
        storing = self._remember(self, key, encoded, told)
        with self._lock:
            self._storing.append(storing)
        return told

    async def stored(self) -> None:
        """Wait until everything that is being stored is; a handler that was told to stop did not wait for it."""
        if not self._storing:
            return
        with self._lock:
            storing, self._storing = self._storing, []
        await asyncio.gather(*(asyncio.wrap_future(each) for each in storing))

    def save(self, encoded: str) -> Future[None]:
        """Store a checkpoint with the next heartbeat, which is sent at once."""
        unsaved = Unsaved(encoded)
        with self._lock:
            lost = self.lost
            if not lost:
                self._unsaved.append(unsaved)
        if lost:
            _fail(unsaved.waiter, TaskCancelled("the lease is lost"))
        else:
            self._wake()
        return unsaved.waiter

    def use(self, tokens: int, cost_micros: int) -> None:
        """Add to what the attempt has used."""
        with self._lock:
            before = self._usage or Usage()
            self._usage = Usage(
                tokens=min(MAX_USAGE, before.tokens + tokens),
                cost_micros=min(MAX_USAGE, before.cost_micros + cost_micros),
            )

    @property
    def usage(self) -> Usage | None:
        """What the attempt has used in all; None when the handler has said nothing."""
        return self._usage

    @property
    def unbooked(self) -> Usage | None:
        """The same, when the broker has not been told yet."""
        return None if self._usage is self._booked else self._usage

    def booked(self, usage: Usage) -> None:
        """Note that the broker has been told this much."""
        self._booked = usage

    @property
    def told_budget(self) -> tuple[Left | None, tuple[int, int]]:
        """What the broker said is left, and the tokens and millionths of ours which it had counted by then."""
        with self._lock:
            counted = self._told_usage or _NOTHING
            return self._told_left, (counted.tokens, counted.cost_micros)

    @property
    def left(self) -> Left | None:
        """What the attempt may still use: what the broker said, less what the handler reported since."""
        left, (tokens, micros) = self.told_budget
        used = self._usage or _NOTHING
        return less(left, used.tokens - tokens, used.cost_micros - micros)

    def budget_told(self, remaining: RemainingBudget | None) -> None:
        """Note what a heartbeat's reply says is left; what is booked is counted in it."""
        with self._lock:
            self._told_left, self._told_usage = _left(remaining), self._booked
            callback = self._on_budget
        if callback is not None:
            callback()

    def on_budget(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the broker has said what is left, from the thread that heard it."""
        with self._lock:
            self._on_budget = callback

    @property
    def unsaved(self) -> Unsaved | None:
        """The newest checkpoint that is not known to be durable; a failure or a release carries it."""
        with self._lock:
            return self._unsaved[-1] if self._unsaved else None

    def saved(self, saved: Unsaved) -> None:
        """Note that this checkpoint, and with it every older one, is durable."""
        with self._lock:
            if saved not in self._unsaved:
                return
            count = self._unsaved.index(saved) + 1
            done, self._unsaved = self._unsaved[:count], self._unsaved[count:]
        for unsaved in done:
            if unsaved.waiter.set_running_or_notify_cancel():
                unsaved.waiter.set_result(None)

    def refused(self, refused: Unsaved, error: Exception) -> None:
        """Note that the broker will not take this checkpoint; whoever waits for it is told."""
        with self._lock:
            if refused in self._unsaved:
                self._unsaved.remove(refused)
        _fail(refused.waiter, error)

    def ended(self) -> None:
        """Let go of whatever still waits: the lease is settled."""
        with self._lock:
            left = [unsaved.waiter for unsaved in self._take_all()] + self._take_unsure()
        for waiter in left:
            _fail(waiter, TaskCancelled("the task is settled"))

    def _take_unsure(self) -> list[Future[None]]:
        taken, self._unsure = self._unsure, []
        return taken

    def _take_all(self) -> list[Unsaved]:
        taken, self._unsaved = self._unsaved, []
        return taken


Remember = Callable[[Held, str, str, Future[Any]], Future[None]]
"""Stores a once value: the lease, the key, the value as JSON, and what is given the value that counts."""


class Holding:
    """Every lease that occupies a slot. Safe to use from every thread."""

    def __init__(self, slots: int, limits: Mapping[str, int] | None = None) -> None:
        self.slots = slots
        self._limits = dict(limits or {})
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}

    def add(self, held: Held) -> bool:
        """Take a lease in; False when it is known, as after a repeated call."""
        with self._lock:
            if held.token in self._held:
                return False
            self._held[held.token] = held
            return True

    def remove(self, held: Held) -> None:
        """Free the slot: the handler ended and its settlement was answered."""
        with self._lock:
            self._held.pop(held.token, None)
        held.ended()

    def all(self) -> list[Held]:
        """Return everything that occupies a slot, lost leases whose handler still runs included."""
        with self._lock:
            return list(self._held.values())

    def ours(self) -> list[Held]:
        """Return the leases that are ours as far as we know."""
        return [held for held in self.all() if not held.lost]

    @property
    def free(self) -> int:
        """Slots without a lease."""
        with self._lock:
            return self.slots - len(self._held)

    def free_by_capability(self) -> dict[str, int]:
        """Return how many more tasks of each limited capability may come; never more than `free` in all."""
        if not self._limits:
            return {}
        with self._lock:
            held = Counter(each.facts.capability for each in self._held.values())
        return {name: max(0, limit - held[name]) for name, limit in self._limits.items()}


_NOTHING: Final = Usage()


def _left(remaining: RemainingBudget | None) -> Left | None:
    return None if remaining is None else (remaining.tokens, remaining.cost_micros)


def _fail(waiter: Future[None], error: BaseException) -> None:
    if not waiter.done() and (waiter.running() or waiter.set_running_or_notify_cancel()):
        waiter.set_exception(error)


def _facts(lease: Lease) -> TaskFacts:
    task = lease.task
    return TaskFacts(
        task_id=task.id,
        namespace=task.namespace,
        capability=task.capability,
        name=task.name,
        payload=task.payload,
        tenant=task.tenant,
        attempt=task.attempt,
        max_attempts=task.max_attempts,
        delivery=task.epoch,
        resume=task.checkpoint,
        age_seconds=task.age_seconds,
        maybe_ran=task.maybe_ran is True,
        traceparent=task.traceparent,
        run_id=task.run_id,
        once=task.once or {},
    )
