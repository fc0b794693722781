"""The port for probes and scrapes: /livez, /readyz, /metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], str | None]
"""What is wrong, in a few words; None when nothing is."""


class OpsServer:
    """Answers on `port`, or on a free one when it is 0; a context manager."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        registry: CollectorRegistry,
        live: Check,
        ready: Check,
        before_scrape: Callable[[], None],
    ) -> None:
        self._host = host
        self.port = port
        self._registry = registry
        self._live = live
        self._ready = ready
        self._before_scrape = before_scrape
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.add_routes(
            [
                web.get("/livez", self._check(self._live)),
                web.get("/readyz", self._check(self._ready)),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @staticmethod
    def _check(check: Check) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(_request: web.Request) -> web.StreamResponse:
            problem = check()
            if problem is None:
                return web.Response(text="ok\n")
            return web.Response(status=503, text=f"{problem}\n")

        return answer

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        self._before_scrape()
        # With a thousand pools this takes a third of a second, in which no pool could be looked at.
        text = await asyncio.to_thread(generate_latest, self._registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})
