"""Calls that wait for nothing but the engine: they need no task of their own, only to be told when it is done.

The same call is made in two ways: by the protocol itself, for a request that it has whole in its hands
(`direct.py`), and as an ordinary handler (`Handled`), for one that came in any other way.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leadsman_broker.auth import Principal
from leadsman_broker.http.exchange import CallerGoneError, Exchange, Response


@dataclass(slots=True, eq=False)
class Pending:
    """A call that the engine has taken in."""

    outcome: asyncio.Future[Any]
    answer: Callable[[Any], Response]
    """Makes the reply of the outcome. Raises ProblemError."""
    waits: bool = False
    """It may be parked, so its caller's socket is watched."""

    @property
    def parked(self) -> bool:
        """Whether it waited for something to happen, so that its duration says nothing about the broker's speed."""
        return False

    def abandon(self) -> None:
        """Nobody waits for the outcome any more."""


Begin = Callable[[str, Principal, bytes], Pending]
"""Begins a call of a namespace, a caller and a body. Raises ProblemError and what the engine refuses with."""


@dataclass(frozen=True, slots=True)
class Handled:
    """Makes such a call as an ordinary handler does."""

    begin: Begin

    async def __call__(self, exchange: Exchange) -> Response:
        """Read the body, begin and wait."""
        pending = self.begin(exchange.namespace, exchange.principal, await exchange.body())
        if pending.waits:
            await self._wait(exchange, pending)
        return pending.answer(await pending.outcome)

    async def _wait(self, exchange: Exchange, pending: Pending) -> None:
        """Wait for the call's end or its socket's, whichever comes first."""
        gone = asyncio.ensure_future(exchange.gone())
        try:
            await asyncio.wait((pending.outcome, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # A task given in this very moment comes back by itself: the worker's next calls do not list it.
            if not pending.outcome.done():
                pending.abandon()
            gone.cancel()
            exchange.parked = pending.parked
        if not pending.outcome.done():
            raise CallerGoneError
