"""Handlers under test: run with a fake context, no broker, no worker.

    from leadsman.testing import run_task

    def test_it_resumes():
        outcome = run_task(app, "browser", {"url": "..."}, resume={"page": 3})
        assert outcome.result == {"pages": 5}
        assert outcome.checkpoints == [{"page": 4}, {"page": 5}]

The verdict is judged by the same code that the worker uses.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from leadsman.app import DEFAULT_NAME, App
from leadsman.budget import Left, RemainingBudget, left_of, less
from leadsman.context import Context, SyncContext, TaskFacts
from leadsman.encoding import normalised
from leadsman.errors import ConfigurationError
from leadsman.outcomes import TaskCancelled
from leadsman.payloads import further_arguments
from leadsman.wire.tasks import TaskSubmit
from leadsman.worker.holding import StopReason
from leadsman.worker.verdicts import Done, Failed, GivenBack, Verdict, raised, returned

Kind = Literal["done", "failed", "released", "nothing"]


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """What the broker would have been told."""

    __test__ = False  # for pytest: this is no test class

    kind: Kind
    """`nothing`: the lease was lost, and nobody is told anything."""
    result: Any = None
    error_type: str | None = None
    error_message: str | None = None
    retry: bool = True
    """False: straight to the dead-letter queue."""
    after_seconds: float | None = None
    """The delay that Retry or Release asked for."""
    checkpoints: list[Any] = field(default_factory=list)
    once: dict[str, Any] = field(default_factory=dict)
    """What this attempt did with `once`, by key; the fact `once` holds what earlier ones did."""
    follow_ups: list[TaskSubmit] = field(default_factory=list)
    """What it submits with its ack; empty unless `kind` is `done`."""
    steps: int = 0
    """How often it reported progress."""
    tokens: int = 0
    """What the handler reported in all; with the next."""
    cost_micros: int = 0
    exception: BaseException | None = None
    """What the handler raised, for a closer look."""


class FakeLease:
    """A lease that exists only in the test. Checkpoints are kept; `cancel` does what a heartbeat reply would."""

    def __init__(self, *, cancel_at_checkpoint: int | None = None, budget: RemainingBudget | None = None) -> None:
        self.checkpoints: list[Any] = []
        self.reason: StopReason | None = None
        self.once: dict[str, Any] = {}
        self.steps = 0
        self.follow_ups: list[TaskSubmit] = []
        self.tokens = 0
        self.cost_micros = 0
        self._budget = budget
        self._cancel_at = cancel_at_checkpoint
        self._on_cancel: Callable[[], Any] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""
        return self.reason is not None

    def cancel(self, reason: StopReason = StopReason.CANCELLED) -> None:
        """Tell the handler to stop."""
        self.reason = reason
        if self._on_cancel is not None:
            self._on_cancel()

    def on_cancel(self, callback: Callable[[], Any]) -> None:
        """Call `callback` when the handler is told to stop."""
        self._on_cancel = callback

    def progress(self) -> None:
        """Count a step."""
        self.steps += 1

    def confirm(self) -> Future[None]:
        """Say whether the lease is still the test's."""
        sure: Future[None] = Future()
        if self.reason is StopReason.LEASE_LOST:
            sure.set_exception(TaskCancelled("the lease is lost"))
        else:
            sure.set_result(None)
        return sure

    def remember(self, key: str, encoded: str) -> Future[Any]:
        """Keep a once value."""
        told: Future[Any] = Future()
        told.set_result(self.once.setdefault(key, json.loads(encoded)))
        return told

    def follow_up(self, task: TaskSubmit) -> None:
        """Keep a follow-up."""
        self.follow_ups.append(task)

    @property
    def left(self) -> Left | None:
        """What the test gave, less what the handler reported."""
        return None if self._budget is None else less(left_of(self._budget), self.tokens, self.cost_micros)

    def use(self, tokens: int, cost_micros: int) -> None:
        """Add to what was reported."""
        self.tokens += tokens
        self.cost_micros += cost_micros

    def save(self, encoded: str) -> Future[None]:
        """Keep a checkpoint."""
        saved: Future[None] = Future()
        if self.reason is StopReason.LEASE_LOST:
            saved.set_exception(TaskCancelled("the lease is lost"))
            return saved
        self.checkpoints.append(json.loads(encoded))
        if self._cancel_at == len(self.checkpoints):
            self.cancel()
        saved.set_result(None)
        return saved


def fake_context(payload: Any = None, *, lease: FakeLease | None = None, **facts: Any) -> Context:
    """Return the context an async handler gets; `facts` are fields of TaskFacts."""
    return Context(_facts(payload, facts), lease or FakeLease(), structlog.get_logger)


def fake_sync_context(payload: Any = None, *, lease: FakeLease | None = None, **facts: Any) -> SyncContext:
    """Return the context a sync handler gets; `facts` are fields of TaskFacts."""
    return SyncContext(_facts(payload, facts), lease or FakeLease(), structlog.get_logger)


def run_task(
    app: App,
    capability: str,
    payload: Any = None,
    *,
    name: str = DEFAULT_NAME,
    cancel_at_checkpoint: int | None = None,
    budget: RemainingBudget | None = None,
    **facts: Any,
) -> TestOutcome:
    """Run a handler to its end and return what the broker would have been told.

    `facts` are fields of the context: `resume`, `attempt`, `tenant`, ... `cancel_at_checkpoint` cancels the task
    right after its n-th checkpoint; `budget` is what it may use. For use without a running event loop; inside one,
    see `run_task_async`.
    """
    running = run_task_async(
        app, capability, payload, name=name, cancel_at_checkpoint=cancel_at_checkpoint, budget=budget, **facts
    )
    return asyncio.run(running)


async def run_task_async(
    app: App,
    capability: str,
    payload: Any = None,
    *,
    name: str = DEFAULT_NAME,
    cancel_at_checkpoint: int | None = None,
    budget: RemainingBudget | None = None,
    **facts: Any,
) -> TestOutcome:
    """Run a handler on the running event loop. See `run_task`."""
    handler = app.handler(capability, name)
    if handler is None:
        known = ", ".join(str(each) for each in app.handlers.values()) or "none"
        raise ConfigurationError(f"there is no handler {capability}/{name}; the application has {known}")
    lease = FakeLease(cancel_at_checkpoint=cancel_at_checkpoint, budget=budget)
    facts = {"capability": capability, "name": name} | facts
    value: Any = None
    error: BaseException | None = None
    try:
        if handler.is_async:
            context = fake_context(payload, lease=lease, **facts)
            running = asyncio.ensure_future(handler.function(context, *further_arguments(handler, context.payload)))
            lease.on_cancel(running.cancel)
            value = await running
        else:
            sync_context = fake_sync_context(payload, lease=lease, **facts)
            further = further_arguments(handler, sync_context.payload)
            value = await asyncio.to_thread(handler.function, sync_context, *further)
    except (Exception, TaskCancelled, asyncio.CancelledError) as caught:  # noqa: BLE001  it is judged below
        error = caught
    verdict = returned(value) if error is None else raised(error, lease.reason)
    return _outcome(verdict, lease, error)


def _facts(payload: Any, facts: dict[str, Any]) -> TaskFacts:
    """Complete the facts, and give payload and resume the shape they have after travelling as JSON."""
    defaults = {"task_id": "test-task", "namespace": "default", "capability": "test"}
    if "resume" in facts:
        facts = facts | {"resume": normalised(facts["resume"], "resume")}
    return TaskFacts(**(defaults | facts), payload=normalised(payload, "the payload"))


def _outcome(verdict: Verdict, lease: FakeLease, error: BaseException | None) -> TestOutcome:
    kept: dict[str, Any] = {
        "checkpoints": lease.checkpoints,
        "once": lease.once,
        "steps": lease.steps,
        "tokens": lease.tokens,
        "cost_micros": lease.cost_micros,
    }
    match verdict:
        case Done(result):
            return TestOutcome("done", result=result, follow_ups=lease.follow_ups, **kept)
        case Failed(described, retry, after):
            return TestOutcome(
                "failed",
                error_type=described.type,
                error_message=described.message,
                retry=retry,
                after_seconds=after,
                **kept,
                exception=error,
            )
        case GivenBack(_, delay, _):
            return TestOutcome("released", after_seconds=delay, **kept, exception=error)
        case _:
            return TestOutcome("nothing", **kept, exception=error)
