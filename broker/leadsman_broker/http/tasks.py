"""Submitting tasks, reading what became of them, cancelling."""

import asyncio
from dataclasses import replace
from typing import cast

from pydantic_core import from_json

from leadsman.wire.base import MAX_WAIT_SECONDS
from leadsman.wire.explanations import TaskExplanation
from leadsman.wire.problems import ProblemCode
from leadsman.wire.tasks import (
    SubmitReply,
    SubmitRequest,
    TaskList,
    TaskState,
    TaskView,
)
from leadsman_broker.auth import Principal
from leadsman_broker.core.commands import Cancel, Enqueue
from leadsman_broker.core.results import Cancelled, Refused, Result, Saturated, SubmitOutcome
from leadsman_broker.engine import Engine
from leadsman_broker.http import views
from leadsman_broker.http.decode import decode
from leadsman_broker.http.exchange import CallerGoneError, Exchange, Response, bad_query, json_response
from leadsman_broker.http.new_task import new_task
from leadsman_broker.http.paging import PAGING, bounds, task_page
from leadsman_broker.http.pending import Handled, Pending
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.routing import PRODUCERS, READERS, Parameter, Route
from leadsman_broker.http.usual import UsualTasks
from leadsman_broker.store.interface import TaskQuery

_FINAL = frozenset({TaskState.COMPLETED, TaskState.DEAD, TaskState.EXPIRED, TaskState.CANCELLED, TaskState.SHED})
_TASKS = "/v1/namespaces/{namespace}/tasks"


class TaskCalls:
    """The handlers of this module's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._usual = UsualTasks()

    def routes(self) -> list[Route]:
        """List the calls."""
        return [
            Route(
                "POST",
                _TASKS,
                Handled(self.submit),
                PRODUCERS,
                "Enqueue a batch of tasks",
                SubmitRequest,
                SubmitReply,
                statuses=(409, 429, 507),
            ),
            Route(
                "GET",
                _TASKS,
                self.list,
                READERS,
                "List tasks in order of acceptance",
                reply=TaskList,
                parameters=(
                    Parameter("state", "only tasks in this state", {"enum": [state.value for state in TaskState]}),
                    Parameter("capability", "only tasks of this queue", {"type": "string"}),
                    Parameter("tenant", "only tasks of this tenant", {"type": "string"}),
                    Parameter("run", "only tasks of this run", {"type": "string"}),
                    *PAGING,
                ),
            ),
            Route(
                "GET",
                _TASKS + "/{id}",
                self.get,
                READERS,
                "Read a task, waiting for its end if asked to",
                reply=TaskView,
                parameters=(
                    Parameter(
                        "wait",
                        "seconds to wait for a final state before answering with what is",
                        {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS},
                    ),
                    Parameter("payload", "show the payload too, while it is kept", {"type": "boolean"}),
                ),
                statuses=(404,),
            ),
            Route(
                "GET",
                _TASKS + "/{id}/explain",
                self.explain,
                READERS,
                "Say where a task stands, what holds it back and what would change that",
                reply=TaskExplanation,
                statuses=(404,),
            ),
            Route(
                "POST",
                _TASKS + "/{id}/cancel",
                self.cancel,
                PRODUCERS,
                "Cancel a task: at once while queued, else when its attempt ends",
                reply=TaskView,
                statuses=(404,),
            ),
        ]

    def submit(self, namespace: str, principal: Principal, body: bytes) -> Pending:
        """Enqueue a batch."""
        tasks = self._usual.read(body)
        if tasks is None:
            tasks = [new_task(task, task.tenant) for task in decode(SubmitRequest, body).tasks]
        identifies = self._engine.core.identifies_tenants
        if any(identifies(namespace, capability) for capability in {task.capability for task in tasks}):
            tasks = [
                task._replace(tenant=principal.name) if identifies(namespace, task.capability) else task
                for task in tasks
            ]
        return Pending(self._engine.submit([Enqueue(namespace, tuple(tasks))], grows=True), _submitted)

    async def list(self, exchange: Exchange) -> Response:
        """List tasks."""
        query = exchange.query(("state", "capability", "tenant", "run", "limit", "cursor"))
        after, limit = bounds(query)
        try:
            state = TaskState(query["state"]) if "state" in query else None
        except ValueError as error:
            raise bad_query("state", f"must be one of {', '.join(TaskState)}") from error
        page = await self._engine.tasks(
            TaskQuery(
                exchange.namespace,
                limit,
                after=after,
                state=state,
                capability=query.get("capability"),
                tenant=query.get("tenant"),
                run_id=query.get("run"),
            )
        )
        return task_page(page.records, page.next_after, self._engine.clock.now())

    async def get(self, exchange: Exchange) -> Response:
        """Read one task."""
        query = exchange.query(("wait", "payload"))
        wait = _wait(query.get("wait"))
        shown = _shown(query.get("payload"))
        task_id = exchange.path["id"]
        if not wait:
            return json_response(await self._view(exchange.namespace, task_id, payload=shown))
        with self._engine.watches.on(task_id) as ended:
            view = await self._view(exchange.namespace, task_id, payload=shown)
            if view.state in _FINAL:
                return json_response(view)
            exchange.parked = True
            gone = asyncio.ensure_future(exchange.gone())
            try:
                await asyncio.wait({ended, gone}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    raise CallerGoneError
            finally:
                gone.cancel()
        return json_response(await self._view(exchange.namespace, task_id, payload=shown))

    async def explain(self, exchange: Exchange) -> Response:
        """Explain one task."""
        task_id = exchange.path["id"]
        view = await self._view(exchange.namespace, task_id)
        standing = self._engine.core.explain(task_id, self._engine.clock.now())
        return json_response(views.task_explanation(view, standing))

    async def cancel(self, exchange: Exchange) -> Response:
        """Cancel one task."""
        task_id = exchange.path["id"]
        (cancelled,) = await self._engine.submit([Cancel(exchange.namespace, task_id)])
        if not isinstance(cancelled, Cancelled) or cancelled.state is None:
            raise _unknown_task(task_id)
        return json_response(await self._view(exchange.namespace, task_id))

    async def _view(self, namespace: str, task_id: str, *, payload: bool = False) -> TaskView:
        record = await self._engine.task(namespace, task_id)
        if record is None:
            raise _unknown_task(task_id)
        view = views.task_view(record, self._engine.clock.now())
        text = await self._engine.payload(namespace, task_id) if payload else None
        return view if text is None else view.model_copy(update={"payload": from_json(text)})


def _submitted(outcomes: list[Result]) -> Response:
    results = cast("list[SubmitOutcome]", outcomes[0])
    for status, code in ((409, ProblemCode.RUN_ENDED), (422, ProblemCode.ESTIMATE_TOO_LARGE)):
        refused = [one.reason for one in results if isinstance(one, Refused) and one.code == code]
        if len(refused) == len(results):
            raise ProblemError(status, code, refused[0])
    reply = Response(views.submit_reply(results))
    waits = [result.retry_after_s for result in results if isinstance(result, Saturated)]
    if len(waits) == len(results):
        wait = max(waits)
        return replace(reply, status=429, headers=((b"retry-after", str(wait).encode()),))
    return reply


def _wait(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise bad_query("wait", f"must be a number of seconds from 0 to {MAX_WAIT_SECONDS:.0f}")
    return seconds


def _shown(text: str | None) -> bool:
    if text not in {None, "true", "false"}:
        raise bad_query("payload", "must be true or false")
    return text == "true"


def _unknown_task(task_id: str) -> ProblemError:
    return ProblemError(
        404,
        ProblemCode.UNKNOWN_TASK,
        f"no task {task_id} is known in this namespace; it never was, or its retention is over",
    )
