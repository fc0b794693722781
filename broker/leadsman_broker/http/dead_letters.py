"""Dead-letter queues: what is in them, and how it gets out of them."""

from typing import cast

import structlog
from pydantic import ValidationError

from leadsman.wire.dead_letters import (
    DeadFilter,
    DeadGroup,
    DeadGroups,
    PurgeReply,
    PurgeRequest,
    PurgeResult,
    RedriveReply,
    RedriveRequest,
)
from leadsman.wire.problems import ProblemCode
from leadsman.wire.tasks import TaskList
from leadsman_broker.core.commands import Purge, Redrive
from leadsman_broker.core.results import Purged, Redriven
from leadsman_broker.engine import Engine
from leadsman_broker.http import views
from leadsman_broker.http.exchange import Exchange, Response, json_response
from leadsman_broker.http.paging import PAGING, bounds, task_page
from leadsman_broker.http.problems import ProblemError, invalid_request
from leadsman_broker.http.routing import CAPABILITY, KEEPERS, READERS, Parameter, Route
from leadsman_broker.store.dead import DeadQuery

_SHOWN_GROUPS = 100
"""Error types are the workers' words: there may be any number of them."""
_FILTER = (
    Parameter("error", "only with this type of error; empty: without one", {"type": "string"}),
    Parameter("reason", "only dead for this reason", {"type": "string"}),
    Parameter("name", "only of this handler", {"type": "string"}),
    Parameter("tenant", "only of this tenant", {"type": "string"}),
    Parameter("run", "only of this run", {"type": "string"}),
    Parameter("died_after", "only those that died then or later; seconds since the epoch", {"type": "number"}),
    Parameter("died_before", "only those that died before then; seconds since the epoch", {"type": "number"}),
)
_FILTER_NAMES = tuple(parameter.name for parameter in _FILTER)

log = structlog.get_logger()


class DeadLetterCalls:
    """The handlers of this module's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """List the calls."""
        return [
            Route(
                "GET",
                CAPABILITY + "/dead",
                self.dead,
                READERS,
                "List the dead-letter queue in order of acceptance",
                reply=TaskList,
                parameters=(*_FILTER, *PAGING),
            ),
            Route(
                "GET",
                CAPABILITY + "/dead/groups",
                self.groups,
                READERS,
                "Count the dead-letter queue by reason and error",
                reply=DeadGroups,
                parameters=_FILTER,
            ),
            Route(
                "POST",
                CAPABILITY + "/redrive",
                self.redrive,
                KEEPERS,
                "Put dead tasks back in their queue",
                RedriveRequest,
                RedriveReply,
                statuses=(507,),
            ),
            Route(
                "POST",
                CAPABILITY + "/purge",
                self.purge,
                KEEPERS,
                "Remove dead tasks for good",
                PurgeRequest,
                PurgeReply,
                statuses=(409,),
            ),
        ]

    async def dead(self, exchange: Exchange) -> Response:
        """List dead tasks."""
        query = exchange.query((*_FILTER_NAMES, "limit", "cursor"))
        after, limit = bounds(query)
        page = await self._engine.dead(_query(exchange, _filter(query))._replace(after=after, limit=limit))
        return task_page(page.records, page.next_after, self._engine.clock.now())

    async def groups(self, exchange: Exchange) -> Response:
        """Group dead tasks."""
        found = await self._engine.dead_groups(_query(exchange, _filter(exchange.query(_FILTER_NAMES))))
        groups = [
            DeadGroup(
                reason=group.reason,
                error=group.error_type,
                tasks=group.tasks,
                first_died_at=group.first_died_at,
                last_died_at=group.last_died_at,
                sample_id=group.sample_id,
                sample_message=group.sample_message,
            )
            for group in found[:_SHOWN_GROUPS]
        ]
        return json_response(DeadGroups(tasks=sum(group.tasks for group in found), groups=groups))

    async def redrive(self, exchange: Exchange) -> Response:
        """Redrive dead tasks."""
        request = await exchange.read(RedriveRequest)
        if request.ids is not None:
            command = _redrive(exchange, request, request.ids)
            results = await self._redriven(command)
            return json_response(
                RedriveReply(
                    results=[views.redrive_result(result) for result in results],
                    redriven=sum(result.redriven for result in results),
                    matched=sum(result.code == "dry_run" for result in results) if request.dry_run else None,
                )
            )
        query = _query(exchange, request.filter)
        if request.dry_run:
            return json_response(RedriveReply(matched=await self._count(query)))
        return json_response(await self._redrive_step(exchange, request, query))

    async def _redrive_step(self, exchange: Exchange, request: RedriveRequest, query: DeadQuery) -> RedriveReply:
        """Redrive the next few that fit, as far as there is room."""
        after = int(request.cursor or 0)
        # What this redrive brought back beyond the cursor was done by an earlier try whose answer was lost.
        done = await self._engine.redriven_by(request.operation, after) if request.operation else 0
        page = await self._engine.dead(query._replace(after=after, limit=request.limit))
        next_after, wait = page.next_after, None
        left: list[Redriven] = []
        if page.records:
            ids = [record.live.id for record in page.records]
            results = await self._redriven(_redrive(exchange, request, ids, paced=True))
            for record, result in zip(page.records, results, strict=True):
                if result.code == "saturated":
                    next_after, wait = record.live.seq - 1, result.retry_after_s
                    break
                done += result.redriven and not result.repeated
                if not result.redriven:
                    left.append(result)
        log.info(
            "redrive by filter",
            namespace=query.namespace,
            capability=query.capability,
            by=exchange.principal.name,
            operation=request.operation,
            redriven=done,
            goes_on=next_after is not None,
        )
        return RedriveReply(
            results=[views.redrive_result(result) for result in left],
            redriven=done,
            next_cursor=None if next_after is None else str(next_after),
            retry_after_s=wait,
        )

    async def purge(self, exchange: Exchange) -> Response:
        """Purge dead tasks."""
        request = await exchange.read(PurgeRequest)
        if request.ids is not None:
            return json_response(await self._purge_ids(exchange, request.ids, dry_run=request.dry_run))
        query = _query(exchange, request.filter)
        if request.dry_run:
            return json_response(PurgeReply(matched=await self._count(query)))
        if not request.confirm:
            raise ProblemError(
                409,
                ProblemCode.CONFIRMATION_REQUIRED,
                f"{await self._count(query)} dead tasks of {query.capability} fit and would be removed for good; "
                'look with "dry_run": true, then say "confirm": true',
            )
        page = await self._engine.dead(query._replace(after=int(request.cursor or 0), limit=request.limit))
        reply = PurgeReply()
        if page.records:
            reply = await self._purge_ids(exchange, [record.live.id for record in page.records])
        more = None if page.next_after is None else str(page.next_after)
        left = [result for result in reply.results if not result.purged]
        return json_response(PurgeReply(results=left, purged=reply.purged, next_cursor=more))

    async def _purge_ids(self, exchange: Exchange, ids: list[str], *, dry_run: bool = False) -> PurgeReply:
        namespace, capability = exchange.namespace, exchange.path["name"]
        (outcomes,) = await self._engine.submit([Purge(namespace, capability, tuple(ids), dry_run=dry_run)])
        done = cast("list[Purged]", outcomes)
        results = [PurgeResult(id=one.id, purged=one.purged, code=one.code, reason=one.reason) for one in done]
        if dry_run:
            return PurgeReply(results=results, matched=sum(one.code == "dry_run" for one in done))
        count = sum(one.purged for one in done)
        log.info(
            "dead tasks purged", namespace=namespace, capability=capability, by=exchange.principal.name, count=count
        )
        return PurgeReply(results=results, purged=count)

    async def _redriven(self, command: Redrive) -> list[Redriven]:
        (outcomes,) = await self._engine.submit([command], grows=not command.dry_run)
        return cast("list[Redriven]", outcomes)

    async def _count(self, query: DeadQuery) -> int:
        return sum(group.tasks for group in await self._engine.dead_groups(query))


def _redrive(exchange: Exchange, request: RedriveRequest, ids: list[str], *, paced: bool = False) -> Redrive:
    return Redrive(
        exchange.namespace,
        exchange.path["name"],
        tuple(ids),
        operation=request.operation or "",
        paced=paced,
        dry_run=request.dry_run,
    )


def _filter(query: dict[str, str]) -> DeadFilter:
    given = {name: value for name, value in query.items() if name in _FILTER_NAMES}
    try:
        return DeadFilter.model_validate_strings(given)
    except ValidationError as error:
        raise invalid_request(error) from error


def _query(exchange: Exchange, chosen: DeadFilter | None) -> DeadQuery:
    chosen = chosen if chosen is not None else DeadFilter()
    return DeadQuery(
        exchange.namespace,
        exchange.path["name"],
        error_type=chosen.error,
        reason=chosen.reason,
        name=chosen.name,
        tenant=chosen.tenant,
        run_id=chosen.run,
        died_after=chosen.died_after,
        died_before=chosen.died_before,
    )
