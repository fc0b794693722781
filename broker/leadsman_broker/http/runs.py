"""Runs: create with caps, read, list, cancel."""

from typing import cast

from leadsman.wire.problems import ProblemCode
from leadsman.wire.runs import RunCaps, RunCounts, RunList, RunState, RunView
from leadsman_broker.core.commands import CancelRun, PutRun
from leadsman_broker.core.results import RunPut
from leadsman_broker.core.rows import Caps, RunRow
from leadsman_broker.engine import Engine
from leadsman_broker.http.exchange import Exchange, Response, bad_query, json_response
from leadsman_broker.http.paging import MAX_PAGE, PAGE
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.routing import PRODUCERS, READERS, Parameter, Route
from leadsman_broker.store.interface import RunQuery

_RUNS = "/v1/namespaces/{namespace}/runs"


class RunCalls:
    """The handlers of this module's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """List the calls."""
        return [
            Route(
                "GET",
                _RUNS,
                self.list,
                READERS,
                "List runs, the newest first",
                reply=RunList,
                parameters=(
                    Parameter("state", "only runs in this state", {"enum": [state.value for state in RunState]}),
                    Parameter(
                        "limit", f"items of a page, at most {MAX_PAGE}", {"type": "integer", "default": PAGE}
                    ),
                    Parameter("cursor", "`next_cursor` of the page before", {"type": "string"}),
                ),
            ),
            Route("GET", _RUNS + "/{id}", self.get, READERS, "Read a run", reply=RunView, statuses=(404,)),
            Route(
                "PUT",
                _RUNS + "/{id}",
                self.put,
                PRODUCERS,
                "Create a run before its first task, or give a running one other caps",
                RunCaps,
                RunView,
                statuses=(409, 507),
            ),
            Route(
                "POST",
                _RUNS + "/{id}/cancel",
                self.cancel,
                PRODUCERS,
                "Cancel a run and all its tasks: queued ones at once, leased ones at their next heartbeat",
                reply=RunView,
                statuses=(404,),
            ),
        ]

    async def list(self, exchange: Exchange) -> Response:
        """List runs."""
        query = exchange.query(("state", "limit", "cursor"))
        limit = query.get("limit", str(PAGE))
        if not (limit.isascii() and limit.isdigit() and len(limit) <= 6 and 1 <= int(limit) <= MAX_PAGE):
            raise bad_query("limit", f"must be a whole number from 1 to {MAX_PAGE}")
        try:
            state = RunState(query["state"]) if "state" in query else None
        except ValueError as error:
            raise bad_query("state", f"must be one of {', '.join(RunState)}") from error
        rows = await self._engine.runs(
            RunQuery(exchange.namespace, int(limit) + 1, before=_place(query.get("cursor")), state=state)
        )
        # One more than asked for, to know whether there is a next page.
        items = rows[: int(limit)]
        last = items[-1] if len(rows) > len(items) else None
        cursor = f"{last.created_at!r}:{last.id}" if last is not None else None
        return json_response(RunList(items=[_view(row) for row in items], next_cursor=cursor))

    async def get(self, exchange: Exchange) -> Response:
        """Read one run."""
        return json_response(await self._read(exchange))

    async def put(self, exchange: Exchange) -> Response:
        """Create a run or change its caps."""
        caps = await exchange.read(RunCaps)
        command = PutRun(
            exchange.namespace,
            exchange.path["id"],
            Caps(caps.max_tokens, caps.max_cost_micros, caps.max_seconds, caps.max_tasks),
        )
        (outcome,) = await self._engine.submit([command], grows=True)
        put = cast("RunPut", outcome)
        if not put.changed:
            detail = f"run {command.run_id} is {put.state}; use another run id"
            raise ProblemError(409, ProblemCode.RUN_ENDED, detail)
        return json_response(await self._read(exchange))

    async def cancel(self, exchange: Exchange) -> Response:
        """Cancel a run."""
        await self._engine.submit([CancelRun(exchange.namespace, exchange.path["id"])])
        return json_response(await self._read(exchange))

    async def _read(self, exchange: Exchange) -> RunView:
        row = await self._engine.run(exchange.namespace, exchange.path["id"])
        if row is None:
            raise ProblemError(
                404,
                ProblemCode.UNKNOWN_RUN,
                f"no run {exchange.path['id']} is known in this namespace; it never was, or its retention is over",
            )
        return _view(row)


def _view(row: RunRow) -> RunView:
    caps = row.caps
    return RunView(
        id=row.id,
        namespace=row.namespace,
        state=row.state,
        reason=row.reason,
        created_at=row.created_at,
        ended_at=row.ended_at,
        caps=RunCaps(
            max_tokens=caps.tokens,
            max_cost_micros=caps.cost_micros,
            max_seconds=caps.seconds,
            max_tasks=caps.tasks,
        ),
        tasks=RunCounts(
            accepted=row.accepted,
            live=row.live,
            completed=row.completed,
            dead=row.dead,
            expired=row.expired,
            cancelled=row.cancelled,
        ),
        tokens=row.usage.tokens,
        cost_micros=row.usage.cost_micros,
        lost_tokens=row.lost_usage.tokens,
        lost_cost_micros=row.lost_usage.cost_micros,
    )


def _place(cursor: str | None) -> tuple[float, str] | None:
    if cursor is None:
        return None
    at, _, run_id = cursor.partition(":")
    try:
        return float(at), run_id
    except ValueError as error:
        raise bad_query("cursor", "is not one that the broker gave; start again without it") from error
