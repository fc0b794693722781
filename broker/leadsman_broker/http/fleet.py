"""The operator's side: capabilities, stats, fences."""

import asyncio
from typing import cast

import structlog

from leadsman.wire.capabilities import CapabilitiesReply, CapabilitiesRequest, CapabilitiesView
from leadsman.wire.stats import StatsSnapshot
from leadsman.wire.workers import (
    CordonReply,
    CordonRequest,
    FenceReply,
    FenceRequest,
    UncordonReply,
    UncordonRequest,
    UncordonResult,
    UnfenceReply,
    UnfenceRequest,
    UnfenceResult,
)
from leadsman_broker.auth import Role
from leadsman_broker.core.commands import Configure, Cordon, Fence, Uncordon, Unfence
from leadsman_broker.core.results import Configured, Cordoned, Fenced
from leadsman_broker.engine import Engine, Event, Subscription
from leadsman_broker.http import views
from leadsman_broker.http.exchange import Exchange, Response, json_response
from leadsman_broker.http.routing import READERS, Route

_CAPABILITIES = "/v1/namespaces/{namespace}/capabilities"
_OPERATORS = frozenset({Role.OPERATOR})
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


log = structlog.get_logger()


class FleetCalls:
    """The handlers of this module's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """List the calls."""
        return [
            Route(
                "PUT",
                _CAPABILITIES,
                self.configure,
                _OPERATORS,
                "Set all capabilities of a namespace",
                CapabilitiesRequest,
                CapabilitiesReply,
            ),
            Route(
                "GET",
                _CAPABILITIES,
                self.capabilities,
                READERS,
                "Read the capabilities of a namespace",
                reply=CapabilitiesView,
            ),
            Route("GET", "/v1/stats", self.stats, _OPERATORS, "Read all stats", reply=StatsSnapshot),
            Route(
                "GET",
                "/v1/namespaces/{namespace}/stats",
                self.namespace_stats,
                READERS,
                "Read the stats of a namespace",
                reply=StatsSnapshot,
            ),
            Route(
                "GET",
                "/v1/stats/stream",
                self.stream,
                _OPERATORS,
                "Follow the stats: server-sent events `snapshot`, `delta` and `tick`, resumed by Last-Event-ID",
                reply=StatsSnapshot,
                media_type="text/event-stream",
            ),
            Route(
                "POST",
                "/v1/workers/fence",
                self.fence,
                _OPERATORS,
                "Take pods out of service, if their workers hold nothing",
                FenceRequest,
                FenceReply,
            ),
            Route(
                "POST",
                "/v1/workers/unfence",
                self.unfence,
                _OPERATORS,
                "Lift fences",
                UnfenceRequest,
                UnfenceReply,
            ),
            Route(
                "POST",
                "/v1/workers/cordon",
                self.cordon,
                _OPERATORS,
                "Give pods' workers nothing new; they keep what they hold",
                CordonRequest,
                CordonReply,
            ),
            Route(
                "POST",
                "/v1/workers/uncordon",
                self.uncordon,
                _OPERATORS,
                "Lift cordons",
                UncordonRequest,
                UncordonReply,
            ),
        ]

    async def configure(self, exchange: Exchange) -> Response:
        """Set a namespace's capabilities."""
        request = await exchange.read(CapabilitiesRequest)
        command = Configure(exchange.namespace, request.generation, tuple(request.capabilities))
        (outcome,) = await self._engine.submit([command])
        configured = cast("Configured", outcome)
        log.info(
            "capabilities pushed",
            namespace=exchange.namespace,
            by=exchange.principal.name,
            generation=request.generation,
            applied=configured.applied,
            count=len(request.capabilities),
            retained=list(configured.retained),
        )
        return json_response(
            CapabilitiesReply(
                generation=configured.generation,
                applied=configured.applied,
                retained=list(configured.retained),
            )
        )

    async def capabilities(self, exchange: Exchange) -> Response:
        """Read a namespace's capabilities."""
        found = self._engine.core.capabilities(exchange.namespace)
        return json_response(CapabilitiesView(generation=found.generation, capabilities=list(found.capabilities)))

    async def stats(self, exchange: Exchange) -> Response:
        """Sample everything; waits for no commit."""
        return json_response(self._engine.feed.snapshot())

    async def namespace_stats(self, exchange: Exchange) -> Response:
        """Sample one namespace; waits for no commit."""
        return json_response(self._engine.feed.snapshot(exchange.namespace))

    async def fence(self, exchange: Exchange) -> Response:
        """Fence pods."""
        request = await exchange.read(FenceRequest)
        command = Fence(request.operation, tuple(request.pod_uids), request.ttl_seconds)
        (outcomes,) = await self._engine.submit([command])
        results = [views.fence_result(outcome) for outcome in cast("list[Fenced]", outcomes)]
        for result in results:
            log.info("fence", operation=request.operation, pod_uid=result.pod_uid, outcome=result.outcome.value)
        return json_response(FenceReply(epoch=self._engine.feed.epoch, results=results))

    async def unfence(self, exchange: Exchange) -> Response:
        """Lift fences."""
        request = await exchange.read(UnfenceRequest)
        lifted = await self._lift("unfence", Unfence(tuple(request.pod_uids), request.operation))
        results = [
            UnfenceResult(pod_uid=pod_uid, lifted=each)
            for pod_uid, each in zip(request.pod_uids, lifted, strict=True)
        ]
        return json_response(UnfenceReply(epoch=self._engine.feed.epoch, results=results))

    async def cordon(self, exchange: Exchange) -> Response:
        """Cordon pods."""
        request = await exchange.read(CordonRequest)
        command = Cordon(request.operation, tuple(request.pod_uids), request.ttl_seconds, request.drain)
        (outcomes,) = await self._engine.submit([command])
        results = [views.cordon_result(outcome) for outcome in cast("list[Cordoned]", outcomes)]
        for result in results:
            log.info(
                "cordon",
                operation=request.operation,
                pod_uid=result.pod_uid,
                outcome=result.outcome.value,
                drain=request.drain,
            )
        return json_response(CordonReply(epoch=self._engine.feed.epoch, results=results))

    async def uncordon(self, exchange: Exchange) -> Response:
        """Lift cordons."""
        request = await exchange.read(UncordonRequest)
        lifted = await self._lift("uncordon", Uncordon(tuple(request.pod_uids), request.operation))
        results = [
            UncordonResult(pod_uid=pod_uid, lifted=each)
            for pod_uid, each in zip(request.pod_uids, lifted, strict=True)
        ]
        return json_response(UncordonReply(epoch=self._engine.feed.epoch, results=results))

    async def _lift(self, what: str, command: Unfence | Uncordon) -> list[bool]:
        (outcomes,) = await self._engine.submit([command])
        lifted = cast("list[bool]", outcomes)
        log.info(what, operation=command.operation, pod_uids=list(command.pod_uids), lifted=lifted)
        return lifted

    async def stream(self, exchange: Exchange) -> None:
        """Send stats as they change until the reader leaves, falls behind, or the broker ends."""
        exchange.parked = True
        feed = self._engine.feed
        reader = feed.subscribe(exchange.header(b"last-event-id"))
        writing = asyncio.ensure_future(_write(exchange, reader))
        gone = asyncio.ensure_future(exchange.gone())
        dropped = asyncio.ensure_future(reader.dropped.wait())
        try:
            await asyncio.wait({writing, gone, dropped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            feed.unsubscribe(reader)
            if reader.dropped.is_set():
                log.warning("a reader of the stats did not keep up and was dropped", by=exchange.principal.name)
            for task in (writing, gone, dropped):
                task.cancel()
            await asyncio.gather(writing, gone, dropped, return_exceptions=True)


async def _write(exchange: Exchange, reader: Subscription) -> None:
    await exchange.send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
    await _chunk(exchange, b"retry: 1000\n\n")
    while (event := await reader.next()) is not None:
        await _chunk(exchange, _frame(event))
    await exchange.send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chunk(exchange: Exchange, data: bytes) -> None:
    await exchange.send({"type": "http.response.body", "body": data, "more_body": True})


def _frame(event: Event) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.kind.encode(), event.data)
