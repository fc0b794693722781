"""The port for the cluster and for Prometheus: /livez, /readyz, /metrics. Needs no token and tells no secret."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

Check = Callable[[], str | None]
"""Returns what is wrong, or None."""


def ops_app(registry: CollectorRegistry, alive: Check, ready: Check) -> Starlette:
    """Return the application of the ops port."""

    async def metrics(_request: Request) -> Response:
        # Sampled here, where the broker's state holds still; written as text on a thread, which takes longer.
        text = await asyncio.to_thread(generate_latest, _Sample(list(registry.collect())))
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/livez", _answer(alive)),
            Route("/readyz", _answer(ready)),
            Route("/metrics", metrics),
        ]
    )


class _Sample(CollectorRegistry):
    """What a registry held at one moment."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return it."""
        return self._families


def _answer(check: Check) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_request: Request) -> Response:
        wrong = check()
        if wrong is None:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(wrong + "\n", status_code=503)

    return answer
