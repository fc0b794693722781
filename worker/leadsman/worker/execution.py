"""Running one handler to its verdict: on the loop, in a thread or in a process, told to stop as its lease says."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from leadsman.app import App, Handler
from leadsman.context import Context, SyncContext, TaskFacts
from leadsman.logs import get_logger
from leadsman.payloads import further_arguments
from leadsman.tracing import attempt_span
from leadsman.worker.holding import Held
from leadsman.worker.isolation.remote import Isolated
from leadsman.worker.threads import HandlerThreads
from leadsman.worker.verdicts import Verdict, raised, returned, unknown_handler

Result = tuple[Any, BaseException | None]


class Execution:
    """Runs the handlers of one application on the current event loop."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, isolated: Isolated | None) -> None:
        self._app = app
        self._loop = loop
        self._isolated = isolated
        self._threads = HandlerThreads()

    async def run(self, held: Held) -> Verdict:
        """Run the task's handler. Whatever it does, this returns a verdict and raises nothing."""
        facts = held.facts
        handler = self._app.handler(facts.capability, facts.name)
        if handler is None:
            return unknown_handler(facts.capability, facts.name, self._app.names(facts.capability))
        if handler.isolated and self._isolated is not None:
            return await self._isolated.run(handler, held)
        value, error = await self._start(handler, held)
        return returned(value) if error is None else raised(error, held.reason)

    def _start(self, handler: Handler, held: Held) -> "asyncio.Future[Result]":
        if handler.is_async:
            context = Context(held.facts, held, _task_logger)
            task = self._loop.create_task(
                _call_async(handler, context, held.facts), name=f"task {held.facts.task_id}"
            )
            held.on_stop(lambda: _from_any_thread(self._loop, task.cancel))
            return _settled(task)
        sync_context = SyncContext(held.facts, held, _task_logger)
        return asyncio.wrap_future(
            self._threads.run(lambda: _call_sync(handler, sync_context, held.facts)), loop=self._loop
        )


async def _call_async(handler: Handler, context: Context, facts: TaskFacts) -> Result:
    try:
        with attempt_span(facts):
            return await handler.function(context, *further_arguments(handler, context.payload)), None
    except BaseException as error:  # noqa: BLE001  SystemExit included: a handler never ends the worker
        return None, error


def _call_sync(handler: Handler, context: SyncContext, facts: TaskFacts) -> Result:
    try:
        with attempt_span(facts):
            return handler.function(context, *further_arguments(handler, context.payload)), None
    except BaseException as error:  # noqa: BLE001  as above
        return None, error


def _settled(task: "asyncio.Task[Result]") -> "asyncio.Future[Result]":
    """Return a future for the task's outcome that a cancellation before its first step does not cancel."""
    outcome: asyncio.Future[Result] = task.get_loop().create_future()

    def done(ended: "asyncio.Task[Result]") -> None:
        if not outcome.done():
            outcome.set_result((None, asyncio.CancelledError()) if ended.cancelled() else ended.result())

    task.add_done_callback(done)
    return outcome


def _from_any_thread(loop: asyncio.AbstractEventLoop, callback: Callable[[], Any]) -> None:
    with contextlib.suppress(RuntimeError):  # a closed loop: the worker has ended, and its handlers with it
        loop.call_soon_threadsafe(callback)


def _task_logger() -> Any:
    return get_logger("leadsman.task")
