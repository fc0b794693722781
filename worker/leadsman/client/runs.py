"""A run as an object: tasks that belong together, submitted, watched, paid for and cancelled as one."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from leadsman.amounts import micros_of, tokens_of
from leadsman.client.submission import fitting
from leadsman.connection.backoff import Backoff
from leadsman.errors import RunTimeoutError
from leadsman.wire.costs import CostBy, CostLine
from leadsman.wire.runs import RunCaps, RunState, RunView
from leadsman.wire.tasks import SubmitResult, TaskSubmit

if TYPE_CHECKING:
    from decimal import Decimal

    from leadsman.client.asynchronous import Client

T = TypeVar("T")
_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 2.0
_COST_SECONDS = 31_536_000.0


def caps_of(
    max_tokens: int | None,
    max_cost: "Decimal | float | str | None",
    max_seconds: float | None,
    max_tasks: int | None,
) -> RunCaps | None:
    """Return the caps given; None when none is. Raises InvalidValueError."""
    fields = {
        "max_tokens": None if max_tokens is None else tokens_of(max_tokens),
        "max_cost_micros": None if max_cost is None else micros_of(max_cost),
        "max_seconds": max_seconds,
        "max_tasks": max_tasks,
    }
    caps = fitting(RunCaps, fields, "the run")
    return None if caps == RunCaps() else caps


class Run:
    """One run of a `Client`, made by `Client.run`. Every method raises LeadsmanError and nothing else."""

    def __init__(self, client: "Client", run_id: str) -> None:
        self._client = client
        self.id = run_id

    async def submit(self, capability: str, payload: Any = None, **options: Any) -> SubmitResult:
        """Submit a task of this run; `options` are those of Client.submit.

        Raises BrokerError with the code `run_ended` once the run has failed or was cancelled.
        """
        return await self._client.submit(capability, payload, run_id=self.id, **options)

    async def submit_many(
        self, tasks: Iterable[TaskSubmit], *, wait_for_room_seconds: float = 0.0
    ) -> list[SubmitResult]:
        """Submit any number of tasks of this run; see Client.submit_many."""
        ours = [task.model_copy(update={"run_id": self.id}) for task in tasks]
        return await self._client.submit_many(ours, wait_for_room_seconds=wait_for_room_seconds)

    async def status(self) -> RunView:
        """Return the run as it stands. Raises NotFoundError before its first task."""
        return await self._client.get_run(self.id)

    async def cost(self) -> CostLine:
        """Return what its attempts used, and how they ended, within what the ledger still has of the last year."""
        report = await self._client.cost(CostBy.RUN, since_seconds=_COST_SECONDS, run=self.id)
        return report.total

    async def cancel(self) -> RunView:
        """Cancel the run and all its tasks. Raises NotFoundError."""
        return await self._client.cancel_run(self.id)

    async def wait(self, *, timeout_seconds: float | None = None) -> RunView:
        """Return the run once it is completed, failed or cancelled. Raises RunTimeoutError."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = Backoff(base_seconds=_POLL_SECONDS, max_seconds=_MAX_POLL_SECONDS)
        while True:
            view = await self.status()
            if view.state is not RunState.RUNNING:
                return view
            if deadline is not None and time.monotonic() >= deadline:
                raise RunTimeoutError(
                    f"run {self.id} is still running after {timeout_seconds:g} s; it goes on", view=view
                )
            await asyncio.sleep(pause.next())


class SyncRun:
    """One run of a `SyncClient`, made by `SyncClient.run`: the same calls, each waiting for its answer."""

    def __init__(self, run_id: str, call: Callable[[Callable[[Run], Coroutine[Any, Any, Any]]], Any]) -> None:
        self.id = run_id
        self._call = call

    def submit(self, capability: str, payload: Any = None, **options: Any) -> SubmitResult:
        """See Run.submit."""
        result: SubmitResult = self._call(lambda run: run.submit(capability, payload, **options))
        return result

    def submit_many(self, tasks: Iterable[TaskSubmit], *, wait_for_room_seconds: float = 0.0) -> list[SubmitResult]:
        """See Run.submit_many."""
        given = list(tasks)
        results: list[SubmitResult] = self._call(
            lambda run: run.submit_many(given, wait_for_room_seconds=wait_for_room_seconds)
        )
        return results

    def status(self) -> RunView:
        """See Run.status."""
        view: RunView = self._call(lambda run: run.status())
        return view

    def cost(self) -> CostLine:
        """See Run.cost."""
        line: CostLine = self._call(lambda run: run.cost())
        return line

    def cancel(self) -> RunView:
        """See Run.cancel."""
        view: RunView = self._call(lambda run: run.cancel())
        return view

    def wait(self, *, timeout_seconds: float | None = None) -> RunView:
        """See Run.wait."""
        view: RunView = self._call(lambda run: run.wait(timeout_seconds=timeout_seconds))
        return view
