"""The producer's client for plain programs: the same calls, each waiting for its answer."""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from leadsman.client.asynchronous import Client, Redriving
from leadsman.client.runs import Run, SyncRun
from leadsman.connection.address import Address, resolve
from leadsman.wire.capabilities import PauseReply
from leadsman.wire.costs import BudgetView, CostBy, CostReport
from leadsman.wire.dead_letters import DeadFilter, DeadGroups, PurgeResult, RedriveResult
from leadsman.wire.explanations import TaskExplanation
from leadsman.wire.runs import RunState, RunView
from leadsman.wire.stats import StatsSnapshot
from leadsman.wire.tasks import SubmitResult, TaskClass, TaskState, TaskSubmit, TaskView

T = TypeVar("T")


class _Engine:
    """An event loop in a daemon thread, and the asynchronous client that lives on it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="leadsman-client", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C in the caller's thread: nobody waits for the call any more
            raise

    def close(self) -> None:
        """Close once; also at the end of a program that forgot to. A forked child has nothing of this to close."""
        atexit.unregister(self.close)
        if self.pid != os.getpid() or self._loop.is_closed():
            return
        self.run(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncClient:
    """Client without asyncio; may be shared by threads, and used by a process after a fork.

    with SyncClient() as client:
        submitted = client.submit("browser", {"url": "https://example.com"})
        print(client.result(submitted.id))
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        token: str | None = None,
        token_file: str | Path | None = None,
        timeout_seconds: float = 30.0,
        unreachable_seconds: float = 10.0,
    ) -> None:
        resolve(url, namespace, token, token_file)  # a wrong setting is told here, not at the first call
        self._url = url
        self._namespace = namespace
        self._token = token
        self._token_file = token_file
        self._timeout_seconds = timeout_seconds
        self._unreachable_seconds = unreachable_seconds
        self._lock = threading.Lock()
        self._engine: _Engine | None = None

    @property
    def address(self) -> Address:
        """Where this client goes."""
        return self._ready().client.address

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread; a later call opens them again."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def submit(
        self,
        capability: str,
        payload: Any = None,
        *,
        name: str = "default",
        key: str | None = None,
        tenant: str = "",
        task_class: TaskClass | str = TaskClass.BACKGROUND,
        priority: int | None = None,
        delay_seconds: float = 0.0,
        ttl_seconds: float | None = None,
        max_attempts: int | None = None,
        run_id: str | None = None,
        wait_for_room_seconds: float = 0.0,
    ) -> SubmitResult:
        """Submit one task. A refusal is an answer: `accepted` False, with `reason` and `retry_after_s`.

        `key` names the work: the same key again gives the same task (`duplicate`), for a day after it ended.
        `wait_for_room_seconds` keeps asking that long while the queue is full.
        """
        engine = self._ready()
        return engine.run(
            engine.client.submit(
                capability,
                payload,
                name=name,
                key=key,
                tenant=tenant,
                task_class=task_class,
                priority=priority,
                delay_seconds=delay_seconds,
                ttl_seconds=ttl_seconds,
                max_attempts=max_attempts,
                run_id=run_id,
                wait_for_room_seconds=wait_for_room_seconds,
            )
        )

    def submit_many(self, tasks: Iterable[TaskSubmit], *, wait_for_room_seconds: float = 0.0) -> list[SubmitResult]:
        """Submit any number of tasks; answers come in the order given. See Client.submit_many."""
        engine = self._ready()
        given = list(tasks)  # the caller's iterator runs in the caller's thread
        return engine.run(engine.client.submit_many(given, wait_for_room_seconds=wait_for_room_seconds))

    def get(self, task_id: str, *, payload: bool = False) -> TaskView:
        """Return the task as it stands, with its payload if asked for and kept still. Raises NotFoundError."""
        engine = self._ready()
        return engine.run(engine.client.get(task_id, payload=payload))

    def explain(self, task_id: str) -> TaskExplanation:
        """Return where the task stands, what holds it back and what would change that. Raises NotFoundError."""
        engine = self._ready()
        return engine.run(engine.client.explain(task_id))

    def wait(self, task_id: str, *, timeout_seconds: float | None = None) -> TaskView:
        """Return the task once it is completed, dead, expired or cancelled. Raises WaitTimeoutError."""
        engine = self._ready()
        return engine.run(engine.client.wait(task_id, timeout_seconds=timeout_seconds))

    def result(self, task_id: str, *, timeout_seconds: float | None = None) -> Any:
        """Return what the task's handler returned. Raises TaskFailedError, WaitTimeoutError."""
        engine = self._ready()
        return engine.run(engine.client.result(task_id, timeout_seconds=timeout_seconds))

    def stream(self, ids: Iterable[str], *, timeout_seconds: float | None = None) -> Iterator[TaskView]:
        """Yield each task once it has ended, as they end. See Client.stream."""
        engine = self._ready()
        views = engine.client.stream(list(ids), timeout_seconds=timeout_seconds)

        async def following() -> TaskView | None:
            return await anext(views, None)

        try:
            while (view := engine.run(following())) is not None:
                yield view
        finally:
            engine.run(views.aclose())

    def tasks(
        self,
        *,
        state: TaskState | str | None = None,
        capability: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
    ) -> list[TaskView]:
        """Return up to `limit` tasks that fit, in order of acceptance."""
        engine = self._ready()
        return engine.run(
            engine.client.tasks(state=state, capability=capability, tenant=tenant, run_id=run_id, limit=limit)
        )

    def cancel(self, task_id: str) -> TaskView:
        """Cancel a task: at once while it waits, at its next heartbeat while it runs. A final one stays so."""
        engine = self._ready()
        return engine.run(engine.client.cancel(task_id))

    def dead(self, capability: str, *, limit: int = 100, where: DeadFilter | None = None) -> list[TaskView]:
        """Return up to `limit` tasks of the dead-letter queue, oldest first; `get` shows one with its history."""
        engine = self._ready()
        return engine.run(engine.client.dead(capability, limit=limit, where=where))

    def dead_groups(self, capability: str, *, where: DeadFilter | None = None) -> DeadGroups:
        """Count the dead-letter queue by reason and error, most frequent first."""
        engine = self._ready()
        return engine.run(engine.client.dead_groups(capability, where=where))

    def count_dead(self, capability: str, chosen: DeadFilter | Sequence[str], *, redrivable: bool = False) -> int:
        """Return how many dead tasks fit a filter, or are among these ids: what a purge would remove.

        `redrivable`: of the ids only those that a redrive would put back, none of a run that was stopped.
        """
        engine = self._ready()
        return engine.run(engine.client.count_dead(capability, chosen, redrivable=redrivable))

    def redrive_where(
        self,
        capability: str,
        where: DeadFilter,
        *,
        wait_for_room_seconds: float = 0.0,
        progress: Callable[[int], None] | None = None,
    ) -> Redriving:
        """Put back every dead task that fits, in steps. See Client.redrive_where."""
        engine = self._ready()
        return engine.run(
            engine.client.redrive_where(
                capability, where, wait_for_room_seconds=wait_for_room_seconds, progress=progress
            )
        )

    def purge(self, capability: str, ids: Sequence[str]) -> list[PurgeResult]:
        """Remove dead tasks for good; answers come in the order given."""
        engine = self._ready()
        return engine.run(engine.client.purge(capability, ids))

    def purge_where(self, capability: str, where: DeadFilter) -> int:
        """Remove every dead task that fits, for good, in steps; return how many went."""
        engine = self._ready()
        return engine.run(engine.client.purge_where(capability, where))

    def redrive(
        self, capability: str, ids: Sequence[str], *, wait_for_room_seconds: float = 0.0
    ) -> list[RedriveResult]:
        """Put dead tasks back in their queue, attempts reset; answers come in the order given."""
        engine = self._ready()
        return engine.run(engine.client.redrive(capability, ids, wait_for_room_seconds=wait_for_room_seconds))

    def run(
        self,
        run_id: str | None = None,
        *,
        max_tokens: int | None = None,
        max_cost: Decimal | float | str | None = None,
        max_seconds: float | None = None,
        max_tasks: int | None = None,
    ) -> SyncRun:
        """Return a run to submit tasks to; see Client.run."""
        engine = self._ready()
        run = engine.run(
            engine.client.run(
                run_id, max_tokens=max_tokens, max_cost=max_cost, max_seconds=max_seconds, max_tasks=max_tasks
            )
        )

        def call(method: Callable[[Run], Coroutine[Any, Any, Any]]) -> Any:
            engine = self._ready()
            return engine.run(method(Run(engine.client, run.id)))

        return SyncRun(run.id, call)

    def get_run(self, run_id: str) -> RunView:
        """Return a run as it stands. Raises NotFoundError."""
        engine = self._ready()
        return engine.run(engine.client.get_run(run_id))

    def runs(self, *, state: RunState | None = None, limit: int = 100) -> list[RunView]:
        """Return up to `limit` runs, the newest first."""
        engine = self._ready()
        return engine.run(engine.client.runs(state=state, limit=limit))

    def cancel_run(self, run_id: str) -> RunView:
        """Cancel a run and all its tasks; one that has ended stays as it is. Raises NotFoundError."""
        engine = self._ready()
        return engine.run(engine.client.cancel_run(run_id))

    def cost(
        self,
        by: CostBy = CostBy.CAPABILITY,
        *,
        since_seconds: float = 86_400.0,
        capability: str | None = None,
        tenant: str | None = None,
        run: str | None = None,
        limit: int = 100,
    ) -> CostReport:
        """See Client.cost."""
        engine = self._ready()
        return engine.run(
            engine.client.cost(
                by, since_seconds=since_seconds, capability=capability, tenant=tenant, run=run, limit=limit
            )
        )

    def pause(self, capability: str, *, reason: str = "") -> PauseReply:
        """Lease nothing of a capability until it is resumed; what runs goes on. Raises NotFoundError."""
        engine = self._ready()
        return engine.run(engine.client.pause(capability, reason=reason))

    def resume(self, capability: str) -> PauseReply:
        """Lease a paused capability again. Raises NotFoundError."""
        engine = self._ready()
        return engine.run(engine.client.resume(capability))

    def budget(self, capability: str) -> BudgetView:
        """Return what a queue's budget has used in its present window. Raises NotFoundError when it has none."""
        engine = self._ready()
        return engine.run(engine.client.budget(capability))

    def stats(self) -> StatsSnapshot:
        """Return the namespace's queues and workers in one sample."""
        engine = self._ready()
        return engine.run(engine.client.stats())

    def _ready(self) -> _Engine:
        with self._lock:
            engine = self._engine
            if engine is None or engine.pid != os.getpid():
                engine = self._engine = _Engine(
                    Client(
                        self._url,
                        namespace=self._namespace,
                        token=self._token,
                        token_file=self._token_file,
                        timeout_seconds=self._timeout_seconds,
                        unreachable_seconds=self._unreachable_seconds,
                    )
                )
            return engine
