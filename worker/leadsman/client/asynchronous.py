"""The producer's client for asyncio programs."""

import asyncio
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel

from leadsman.client.following import FINAL_STATES, follow
from leadsman.client.runs import Run, caps_of
from leadsman.client.submission import Prepared, batches, body, fitting, make_task, prepare
from leadsman.connection.address import Address, resolve
from leadsman.connection.backoff import Backoff, later
from leadsman.connection.http import HttpConnection, HttpReply
from leadsman.connection.replies import is_temporary, parse
from leadsman.errors import LeadsmanError, Submission, TaskFailedError, WaitTimeoutError
from leadsman.wire.base import MAX_BATCH
from leadsman.wire.capabilities import PauseReply, PauseRequest
from leadsman.wire.costs import BudgetView, CostBy, CostReport
from leadsman.wire.dead_letters import (
    DeadFilter,
    DeadGroups,
    PurgeReply,
    PurgeRequest,
    PurgeResult,
    RedriveReply,
    RedriveRequest,
    RedriveResult,
)
from leadsman.wire.explanations import TaskExplanation
from leadsman.wire.problems import ProblemCode
from leadsman.wire.runs import RunList, RunState, RunView
from leadsman.wire.stats import StatsSnapshot
from leadsman.wire.tasks import SubmitReply, SubmitResult, TaskClass, TaskList, TaskState, TaskSubmit, TaskView

Model = TypeVar("Model", bound=BaseModel)

_PARK_SECONDS = 25.0
"""How long one wait is parked at the broker; below what proxies allow a silent connection."""
_DEFAULT_ROOM_SECONDS = 30
"""When a refusal comes without a time."""


class Redriving(NamedTuple):
    """How far a redrive by filter came."""

    redriven: int
    left: tuple[RedriveResult, ...]
    """Tasks that stayed dead, or were no longer dead, and why."""
    retry_after_s: int | None
    """The queue had no room for the rest; None: there is no rest."""


class Client:
    """Submits tasks to one namespace of a broker and reads what became of them.

    async with Client() as client:
        submitted = await client.submit("browser", {"url": "https://example.com"})
        print(await client.result(submitted.id))

    Where nothing is given, LEADSMAN_BROKER_URL, LEADSMAN_NAMESPACE, LEADSMAN_TOKEN_FILE and LEADSMAN_TOKEN say it.
    A call that meets no broker, or one that is starting, is repeated for `unreachable_seconds`; repeating is safe,
    because every task carries a key. Every method raises LeadsmanError and nothing else of its own.
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
        self._connection = HttpConnection(resolve(url, namespace, token, token_file))
        self._timeout_seconds = timeout_seconds
        self._unreachable_seconds = unreachable_seconds

    @property
    def address(self) -> Address:
        """Where this client goes."""
        return self._connection.address

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def submit(
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
        task = make_task(
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
        )
        return (await self.submit_many([task], wait_for_room_seconds=wait_for_room_seconds))[0]

    async def submit_many(
        self, tasks: Iterable[TaskSubmit], *, wait_for_room_seconds: float = 0.0
    ) -> list[SubmitResult]:
        """Submit any number of tasks, in as many requests as they need; answers come in the order given.

        Each task is accepted or refused alone. When this raises after something was sent, the exception's
        `submission` holds the answers so far and the tasks to submit again.
        """
        pending = prepare(tasks)
        answers: dict[int, SubmitResult] = {}
        deadline = time.monotonic() + wait_for_room_seconds
        try:
            while True:
                for batch in batches(pending):
                    await self._send(batch, answers)
                pending = [item for item in pending if _wants_room(answers[item.index])]
                if not pending:
                    break
                asked = max(answers[item.index].retry_after_s or _DEFAULT_ROOM_SECONDS for item in pending)
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                await asyncio.sleep(min(later(asked), remaining))
        except LeadsmanError as error:
            error.submission = Submission(
                tuple(answers[index] for index in sorted(answers)),
                tuple(item.task for item in pending if item.index not in answers),
            )
            raise
        return [answers[index] for index in range(len(answers))]

    async def get(self, task_id: str, *, payload: bool = False) -> TaskView:
        """Return the task as it stands, with its payload if asked for and kept still. Raises NotFoundError."""
        return await self._read(TaskView, "tasks", task_id, query={"payload": "true"} if payload else None)

    async def explain(self, task_id: str) -> TaskExplanation:
        """Return where the task stands, what holds it back and what would change that. Raises NotFoundError."""
        return await self._read(TaskExplanation, "tasks", task_id, "explain")

    async def wait(self, task_id: str, *, timeout_seconds: float | None = None) -> TaskView:
        """Return the task once it is completed, dead, expired or cancelled. Raises WaitTimeoutError."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            remaining = _PARK_SECONDS if deadline is None else max(0.0, deadline - time.monotonic())
            view = await self._look(task_id, min(_PARK_SECONDS, remaining))
            if view.state in FINAL_STATES:
                return view
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeoutError(
                    f"task {task_id} is still {view.state} after {timeout_seconds:g} s; it goes on", view=view
                )

    async def result(self, task_id: str, *, timeout_seconds: float | None = None) -> Any:
        """Return what the task's handler returned. Raises TaskFailedError, WaitTimeoutError."""
        view = await self.wait(task_id, timeout_seconds=timeout_seconds)
        if view.state is TaskState.COMPLETED:
            return view.result
        raise TaskFailedError(f"task {task_id} is {view.state}: {why_ended(view)}", view=view)

    async def stream(
        self, ids: Iterable[str], *, timeout_seconds: float | None = None
    ) -> AsyncGenerator[TaskView, None]:
        """Yield each task once it has ended, as they end; after the timeout, the others as they stand.

        Any number of tasks; few calls are out at a time. Raises NotFoundError for an id that is not known.
        """
        async for view in follow(self._look, ids, _PARK_SECONDS, timeout_seconds):
            yield view

    async def tasks(
        self,
        *,
        state: TaskState | str | None = None,
        capability: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
    ) -> list[TaskView]:
        """Return up to `limit` tasks that fit, in order of acceptance."""
        asked = {"state": state, "capability": capability, "tenant": tenant, "run": run_id}
        query = {name: str(value) for name, value in asked.items() if value is not None}
        return await self._pages(("tasks",), query, limit)

    async def cancel(self, task_id: str) -> TaskView:
        """Cancel a task: at once while it waits, at its next heartbeat while it runs. A final one stays so."""
        reply = await self._call("POST", ("tasks", task_id, "cancel"), b"")
        return self._parsed(TaskView, reply)

    async def dead(self, capability: str, *, limit: int = 100, where: DeadFilter | None = None) -> list[TaskView]:
        """Return up to `limit` tasks of the dead-letter queue, oldest first; `get` shows one with its history."""
        return await self._pages(("capabilities", capability, "dead"), _query_of(where), limit)

    async def dead_groups(self, capability: str, *, where: DeadFilter | None = None) -> DeadGroups:
        """Count the dead-letter queue by reason and error, most frequent first."""
        return await self._read(DeadGroups, "capabilities", capability, "dead", "groups", query=_query_of(where))

    async def redrive(
        self, capability: str, ids: Sequence[str], *, wait_for_room_seconds: float = 0.0
    ) -> list[RedriveResult]:
        """Put dead tasks back in their queue, attempts reset; answers come in the order given."""
        operation = secrets.token_hex(8)
        answers: dict[str, RedriveResult] = {}
        pending = list(dict.fromkeys(ids))
        deadline = time.monotonic() + wait_for_room_seconds
        while pending:
            for start in range(0, len(pending), MAX_BATCH):
                request = fitting(
                    RedriveRequest, {"ids": pending[start : start + MAX_BATCH], "operation": operation}, "the tasks"
                )
                path = ("capabilities", capability, "redrive")
                reply = await self._call("POST", path, request.model_dump_json().encode(), accept=(200, 429))
                answers |= {one.id: one for one in self._parsed(RedriveReply, reply).results}
            pending = [one for one in pending if answers[one].code == ProblemCode.SATURATED]
            remaining = deadline - time.monotonic()
            if not pending or remaining <= 0:
                break
            asked = max(answers[one].retry_after_s or _DEFAULT_ROOM_SECONDS for one in pending)
            await asyncio.sleep(min(later(asked), remaining))
        return [answers[one] for one in ids]

    async def run(
        self,
        run_id: str | None = None,
        *,
        max_tokens: int | None = None,
        max_cost: Decimal | float | str | None = None,
        max_seconds: float | None = None,
        max_tasks: int | None = None,
    ) -> Run:
        """Return a run to submit tasks to; a new one without an id. A cap that is given is set before this returns.

        Beyond a cap the run fails: what is queued is cancelled and what runs is told to stop. `max_cost` is money,
        `max_seconds` count from the creation of the run.
        """
        run = Run(self, run_id if run_id is not None else uuid.uuid4().hex)
        caps = caps_of(max_tokens, max_cost, max_seconds, max_tasks)
        if caps is not None:
            await self._call("PUT", ("runs", run.id), caps.model_dump_json(exclude_none=True).encode())
        return run

    async def get_run(self, run_id: str) -> RunView:
        """Return a run as it stands. Raises NotFoundError."""
        return await self._read(RunView, "runs", run_id)

    async def runs(self, *, state: RunState | None = None, limit: int = 100) -> list[RunView]:
        """Return up to `limit` runs, the newest first."""
        found: list[RunView] = []
        query = {"state": state.value} if state is not None else {}
        while len(found) < limit:
            page = await self._read(
                RunList, "runs", query=query | {"limit": str(min(MAX_BATCH, limit - len(found)))}
            )
            found += page.items
            if page.next_cursor is None:
                break
            query["cursor"] = page.next_cursor
        return found

    async def cancel_run(self, run_id: str) -> RunView:
        """Cancel a run and all its tasks; one that has ended stays as it is. Raises NotFoundError."""
        return self._parsed(RunView, await self._call("POST", ("runs", run_id, "cancel"), b""))

    async def redrive_where(
        self,
        capability: str,
        where: DeadFilter,
        *,
        wait_for_room_seconds: float = 0.0,
        progress: Callable[[int], None] | None = None,
    ) -> Redriving:
        """Put back every dead task that fits, in steps that leave half of the queue to new work.

        While there is no room it waits, at most `wait_for_room_seconds` in all. `progress` is told after each step
        how many came back so far. When it was interrupted, the same call goes on with what is still dead.
        """
        request = RedriveRequest(filter=where, operation=secrets.token_hex(8))
        deadline = time.monotonic() + wait_for_room_seconds
        redriven = 0
        left: list[RedriveResult] = []
        while True:
            content = request.model_dump_json(exclude_none=True).encode()
            reply = await self._call("POST", ("capabilities", capability, "redrive"), content)
            step = self._parsed(RedriveReply, reply)
            redriven += step.redriven
            left += step.results
            if progress is not None:
                progress(redriven)
            if step.next_cursor is None:
                return Redriving(redriven, tuple(left), None)
            request = request.model_copy(update={"cursor": step.next_cursor})
            if step.retry_after_s is None:
                continue
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return Redriving(redriven, tuple(left), step.retry_after_s)
            await asyncio.sleep(min(later(step.retry_after_s), remaining))

    async def count_dead(
        self, capability: str, chosen: DeadFilter | Sequence[str], *, redrivable: bool = False
    ) -> int:
        """Return how many dead tasks fit a filter, or are among these ids: what a purge would remove.

        `redrivable`: of the ids only those that a redrive would put back, none of a run that was stopped.
        """
        if isinstance(chosen, DeadFilter):
            return (await self.dead_groups(capability, where=chosen)).tasks
        found = 0
        for start in range(0, len(chosen), MAX_BATCH):
            chunk = {"ids": list(chosen[start : start + MAX_BATCH]), "dry_run": True}
            content = fitting(RedriveRequest, chunk, "the tasks").model_dump_json(exclude_none=True).encode()
            path = ("capabilities", capability, "redrive" if redrivable else "purge")
            found += self._parsed(PurgeReply, await self._call("POST", path, content)).matched or 0
        return found

    async def purge(self, capability: str, ids: Sequence[str]) -> list[PurgeResult]:
        """Remove dead tasks for good; answers come in the order given."""
        answers: dict[str, PurgeResult] = {}
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), MAX_BATCH):
            request = fitting(PurgeRequest, {"ids": wanted[start : start + MAX_BATCH]}, "the tasks")
            reply = await self._purge(capability, request)
            answers |= {one.id: one for one in reply.results}
        return [answers[one] for one in ids]

    async def purge_where(self, capability: str, where: DeadFilter) -> int:
        """Remove every dead task that fits, for good, in steps; return how many went."""
        request = PurgeRequest(filter=where, confirm=True, limit=MAX_BATCH)
        purged = 0
        while True:
            step = await self._purge(capability, request)
            purged += step.purged
            if step.next_cursor is None:
                return purged
            request = request.model_copy(update={"cursor": step.next_cursor})

    async def _purge(self, capability: str, request: PurgeRequest) -> PurgeReply:
        content = request.model_dump_json(exclude_none=True).encode()
        return self._parsed(PurgeReply, await self._call("POST", ("capabilities", capability, "purge"), content))

    async def cost(
        self,
        by: CostBy = CostBy.CAPABILITY,
        *,
        since_seconds: float = 86_400.0,
        capability: str | None = None,
        tenant: str | None = None,
        run: str | None = None,
        limit: int = 100,
    ) -> CostReport:
        """Return what the attempts leased in the last `since_seconds` used, superseded ones included."""
        wanted = {"capability": capability, "tenant": tenant, "run": run}
        query = {name: value for name, value in wanted.items() if value is not None}
        query |= {"by": by.value, "since_seconds": str(since_seconds), "limit": str(limit)}
        return await self._read(CostReport, "cost", query=query)

    async def pause(self, capability: str, *, reason: str = "") -> PauseReply:
        """Lease nothing of a capability until it is resumed; what runs goes on. Raises NotFoundError."""
        content = fitting(PauseRequest, {"reason": reason}, "the pause").model_dump_json().encode()
        return self._parsed(PauseReply, await self._call("POST", ("capabilities", capability, "pause"), content))

    async def resume(self, capability: str) -> PauseReply:
        """Lease a paused capability again. Raises NotFoundError."""
        return self._parsed(PauseReply, await self._call("POST", ("capabilities", capability, "resume"), b""))

    async def budget(self, capability: str) -> BudgetView:
        """Return what a queue's budget has used in its present window. Raises NotFoundError when it has none."""
        return await self._read(BudgetView, "capabilities", capability, "budget")

    async def stats(self) -> StatsSnapshot:
        """Return the namespace's queues and workers in one sample."""
        return await self._read(StatsSnapshot, "stats")

    async def _look(self, task_id: str, park_seconds: float) -> TaskView:
        query = {"wait": f"{park_seconds:.3f}"}
        return await self._read(TaskView, "tasks", task_id, query=query, parked=park_seconds)

    async def _pages(self, path: tuple[str, ...], query: dict[str, str], limit: int) -> list[TaskView]:
        found: list[TaskView] = []
        while len(found) < limit:
            asked = query | {"limit": str(min(MAX_BATCH, limit - len(found)))}
            page = await self._read(TaskList, *path, query=asked)
            found += page.items
            if page.next_cursor is None:
                break
            query = query | {"cursor": page.next_cursor}
        return found

    async def _send(self, batch: list[Prepared], answers: dict[int, SubmitResult]) -> None:
        reply = await self._call("POST", ("tasks",), body(batch), accept=(200, 429))
        results = self._parsed(SubmitReply, reply).results
        for item, result in zip(batch, results, strict=True):
            lost_reply = item.own_key and result.duplicate
            answers[item.index] = result.model_copy(update={"duplicate": None}) if lost_reply else result

    async def _read(
        self,
        model: type[Model],
        *path: str,
        query: dict[str, str] | None = None,
        parked: float = 0.0,
    ) -> Model:
        return self._parsed(model, await self._call("GET", path, None, query=query, parked=parked))

    async def _call(
        self,
        method: str,
        path: tuple[str, ...],
        content: bytes | None,
        *,
        query: dict[str, str] | None = None,
        parked: float = 0.0,
        accept: tuple[int, ...] = (200,),
    ) -> HttpReply:
        """Call, and call again while the broker is away. Safe because every call may be repeated."""
        backoff = Backoff(max_seconds=2.0)
        deadline = time.monotonic() + self._unreachable_seconds
        while True:
            try:
                return await self._connection.call(
                    method,
                    self.address.path(*path),
                    content,
                    query=query,
                    timeout_seconds=self._timeout_seconds + parked,
                    accept=accept,
                )
            except LeadsmanError as error:
                wait = max(backoff.next(), later(getattr(error, "retry_after_s", None) or 0.0))
                if not is_temporary(error) or time.monotonic() + wait > deadline:
                    raise
            await asyncio.sleep(wait)

    def _parsed(self, model: type[Model], reply: HttpReply) -> Model:
        return parse(model, reply.body, url=self.address.url)


def why_ended(view: TaskView) -> str:
    """Return in a line why a task has no result."""
    error = f"{view.error.type}: {view.error.message}" if view.error else ""
    return " ".join("; ".join(part for part in (view.reason, error) if part).split()) or "no reason is known"


def _wants_room(result: SubmitResult) -> bool:
    return not result.accepted and result.code is None


def _query_of(where: DeadFilter | None) -> dict[str, str]:
    chosen = {} if where is None else where.model_dump(exclude_none=True)
    return {name: str(value) for name, value in chosen.items()}
