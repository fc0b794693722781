"""Pausing and resuming a capability: a person's switch, which no configuration moves."""

from typing import cast

import structlog

from leadsman.wire.capabilities import PauseReply, PauseRequest
from leadsman.wire.problems import ProblemCode
from leadsman_broker.core.commands import Pause, Resume
from leadsman_broker.core.results import Paused
from leadsman_broker.engine import Engine
from leadsman_broker.http import views
from leadsman_broker.http.exchange import Exchange, Response, json_response
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.routing import CAPABILITY, KEEPERS, Route

log = structlog.get_logger()


class PauseCalls:
    """The handlers of this module's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """List the calls."""
        return [
            Route(
                "POST",
                CAPABILITY + "/pause",
                self.pause,
                KEEPERS,
                "Lease nothing of a capability until it is resumed",
                PauseRequest,
                PauseReply,
                statuses=(404,),
            ),
            Route(
                "POST",
                CAPABILITY + "/resume",
                self.resume,
                KEEPERS,
                "Lease a paused capability again",
                reply=PauseReply,
                statuses=(404,),
            ),
        ]

    async def pause(self, exchange: Exchange) -> Response:
        """Pause a capability."""
        request = await exchange.read(PauseRequest)
        return await self._put(exchange, Pause(exchange.namespace, exchange.path["name"], request.reason))

    async def resume(self, exchange: Exchange) -> Response:
        """Resume a capability."""
        return await self._put(exchange, Resume(exchange.namespace, exchange.path["name"]))

    async def _put(self, exchange: Exchange, command: Pause | Resume) -> Response:
        (outcome,) = await self._engine.submit([command])
        paused = cast("Paused", outcome)
        if not paused.known:
            raise ProblemError(
                404,
                ProblemCode.UNKNOWN_CAPABILITY,
                f"namespace {command.namespace} has no capability {command.capability}",
            )
        reply = views.pause_reply(command.capability, paused)
        if reply.changed:
            log.info(
                "capability paused" if reply.paused else "capability resumed",
                namespace=command.namespace,
                capability=command.capability,
                by=exchange.principal.name,
                reason=reply.reason or None,
            )
        return json_response(reply)
