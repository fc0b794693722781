"""Follows the broker's stream of numbers for as long as the operator runs."""

import asyncio
import random
from collections.abc import Callable

import aiohttp
import structlog
from pydantic import ValidationError

from leadsman.wire.stats import StatsSnapshot
from leadsman_operator.broker.client import BrokerClient, refusal
from leadsman_operator.broker.errors import BrokerError
from leadsman_operator.broker.sse import EventParser, EventTooLargeError, ServerEvent
from leadsman_operator.broker.state import BrokerState, Changed, OddSignalError

_log = structlog.get_logger(__name__)

PATH = "/v1/stats/stream"

_FIRST_PAUSE_SECONDS = 0.1
_LAST_PAUSE_SECONDS = 5.0


class StatsStream:
    """Keeps `state` up to date and calls `changed` after every message.

    A stream that ends, breaks, goes silent or makes no sense is opened again after a jittered pause that grows to a
    few seconds, so that a restarted broker is not met by every operator at once.
    """

    def __init__(
        self,
        broker: BrokerClient,
        state: BrokerState,
        changed: Callable[[Changed], None],
        *,
        rng: random.Random | None = None,
    ) -> None:
        self._broker = broker
        self._state = state
        self._changed = changed
        self._random = rng or random.Random()  # noqa: S311 - spreads load, keeps no secret
        self.connected = False

    async def run(self) -> None:
        """Follow it until cancelled."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            sequence = self._state.sequence
            try:
                await self._follow()
                problem = "the stream ended"
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = str(error) or type(error).__name__
            except (BrokerError, OddSignalError, EventTooLargeError, ValidationError) as error:
                problem = str(error)
            self.connected = False
            if self._state.sequence != sequence:
                pause = _FIRST_PAUSE_SECONDS
            _log.warning("broker stream lost", problem=problem[:500], again_in=round(pause, 2))
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.5))
            pause = min(_LAST_PAUSE_SECONDS, pause * 2)

    async def _follow(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None, connect=5.0, sock_read=self._state.stale_seconds)
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache", **self._broker.token.headers()}
        async with self._broker.session.get(self._broker.url + PATH, headers=headers, timeout=timeout) as reply:
            if reply.status != 200:
                if reply.status == 401:
                    self._broker.token.renew()
                raise refusal(reply.status, await reply.content.read(2000))
            if reply.content_type != "text/event-stream":
                raise OddSignalError(f"not an event stream but {reply.content_type}")
            parser = EventParser()
            first = True
            loop = asyncio.get_running_loop()
            heard_at = loop.time()
            async for chunk in reply.content.iter_any():
                events = parser.feed(chunk)
                if events or parser.halfway:
                    heard_at = loop.time()
                elif loop.time() - heard_at > self._state.stale_seconds:
                    # Whoever keeps the connection alive is not the broker, which says something every few seconds.
                    raise OddSignalError("bytes come, but no events")
                for event in events:
                    if first and event.kind != "snapshot":
                        raise OddSignalError(f"the stream begins with {event.kind}")
                    first = False
                    self.connected = True
                    self._take(event)

    def _take(self, event: ServerEvent) -> None:
        now = asyncio.get_running_loop().time()
        message = StatsSnapshot.model_validate_json(event.data)
        if event.kind == "snapshot":
            _log.info("broker stream open", epoch=message.epoch, sequence=message.sequence)
            self._changed(self._state.snapshot(message, now))
        elif event.kind == "delta":
            self._changed(self._state.delta(message, now))
        elif event.kind == "tick":
            self._changed(self._state.tick(message, now))
