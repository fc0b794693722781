"""The life of a broker process: open, load, serve, and end so that nothing acknowledged is lost."""

import asyncio
import contextlib
import gc
import json
import os
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from leadsman_broker.auth import Authenticator, Open
from leadsman_broker.auth.static import StaticTokens
from leadsman_broker.cli.capabilities_file import Capabilities, read_capabilities
from leadsman_broker.cli.settings import AuthMode, Settings, SettingsError
from leadsman_broker.core.commands import Configure
from leadsman_broker.core.core import Core
from leadsman_broker.engine import Clock, Engine, Feed, SecureRandom
from leadsman_broker.http.api import Api
from leadsman_broker.http.costs import CostCalls
from leadsman_broker.http.dead_letters import DeadLetterCalls
from leadsman_broker.http.fleet import FleetCalls
from leadsman_broker.http.leases import LeaseCalls
from leadsman_broker.http.openapi import openapi_route
from leadsman_broker.http.ops import ops_app
from leadsman_broker.http.pausing import PauseCalls
from leadsman_broker.http.runs import RunCalls
from leadsman_broker.http.server import Server, listen
from leadsman_broker.http.tasks import TaskCalls
from leadsman_broker.metrics import BrokerCollector, EngineMetrics, HttpMetrics
from leadsman_broker.store.interface import Store
from leadsman_broker.store.memory import MemoryStore
from leadsman_broker.store.sqlite import SqliteStore

EXIT_FAILED = 70
"""The engine failed; the state on disk is good and a restart goes on from it."""

_STUCK_SECONDS = 60.0
"""A commit that takes longer makes /livez fail."""
_MONITOR_SECONDS = 0.5
_TEND_EVERY_SECONDS = 3.0
_COLLECT_EVERY_SECONDS = 60.0
_COLLECT_BELOW_TASKS = 5_000
"""Up to here a whole collection takes a few milliseconds."""

log = structlog.get_logger()


class Process:
    """One run of `leadsman-broker serve`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine: Engine | None = None
        self._stopping = asyncio.Event()
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._metrics = EngineMetrics(self._registry)
        ProcessCollector(registry=self._registry)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT. Raises what `serve` shows as one line when it cannot start."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Also what makes it correct as PID 1, where the kernel's default is to ignore both.
            loop.add_signal_handler(number, self._stopping.set)
        _raise_file_limit()
        capabilities = read_capabilities(settings.capabilities_file) if settings.capabilities_file else {}
        authenticator = self._authenticator()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(authenticator.close)
            api_socket = stack.enter_context(listen(settings.host, settings.port))
            ops_socket = stack.enter_context(listen(settings.host, settings.ops_port))
            ops = ops_app(self._registry, self._alive, self._ready)
            await stack.enter_async_context(_serving(ops, ops_socket))
            engine = await stack.enter_async_context(self._running(capabilities))
            await stack.enter_async_context(_serving(self._api(engine, authenticator), api_socket))
            self._engine = engine
            _announce(settings.host, api_socket, ops_socket)
            await self._until_over(engine)
            await engine.drain()
        log.info("stopped")

    def _authenticator(self) -> Authenticator:
        settings = self._settings
        if settings.auth is AuthMode.STATIC and settings.tokens_file is not None:
            return StaticTokens.load(settings.tokens_file)
        if settings.auth is AuthMode.KUBERNETES:
            # Imported only here: an HTTP client takes a quarter of the time to start, which the other modes save.
            from leadsman_broker.auth.kubernetes import KubernetesAuth  # noqa: PLC0415
            from leadsman_broker.auth.token_review import ApiServer, TokenReviewer  # noqa: PLC0415

            server = ApiServer.find(settings.kube_api_url, settings.kube_token_file, settings.kube_ca_file)
            return KubernetesAuth(
                TokenReviewer(server, settings.audience),
                operators=settings.operator_identities,
                admins=settings.admin_identities,
            )
        return Open()

    def _api(self, engine: Engine, authenticator: Authenticator) -> Api:
        routes = [
            *LeaseCalls(engine).routes(),
            *TaskCalls(engine).routes(),
            *CostCalls(engine).routes(),
            *RunCalls(engine).routes(),
            *DeadLetterCalls(engine).routes(),
            *FleetCalls(engine).routes(),
            *PauseCalls(engine).routes(),
        ]
        return Api(
            [*routes, openapi_route(routes)],
            authenticator,
            HttpMetrics(self._registry),
            max_body_bytes=self._settings.max_body_bytes,
        )

    @contextlib.asynccontextmanager
    async def _running(self, capabilities: Capabilities) -> AsyncIterator[Engine]:
        """Open the store, load the core, and keep the engine running while the context lasts."""
        store = await asyncio.to_thread(_open_store, self._settings)
        try:
            engine = await self._load(store)
        except BaseException:
            store.close()
            raise
        collector = BrokerCollector(engine, store)
        self._registry.register(collector)
        monitor = asyncio.create_task(self._monitor(engine))
        try:
            await _configure(engine, capabilities)
            yield engine
        finally:
            monitor.cancel()
            await engine.drain()
            self._registry.unregister(collector)
            engine.close()

    async def _load(self, store: Store) -> Engine:
        started = time.monotonic()
        gc.disable()
        stored = await asyncio.to_thread(store.load)
        clock = Clock(stored.last_at)
        core = await asyncio.to_thread(Core, stored, clock.now(), SecureRandom())
        # What was loaded lives long and holds no cycles; looking through it takes a second at a million tasks.
        gc.freeze()
        feed = Feed(core, clock, f"{store.generation}.{secrets.token_hex(4)}")
        engine = Engine(core, store, clock, feed, self._metrics)
        feed.start()
        engine.start()
        log.info("loaded", seconds=round(time.monotonic() - started, 3), epoch=feed.epoch)
        return engine

    async def _monitor(self, engine: Engine) -> None:
        """Measure how late the loop runs, and look for cycles of garbage while that is cheap."""
        collected_at = tended_at = time.monotonic()
        while True:
            before = time.monotonic()
            await asyncio.sleep(_MONITOR_SECONDS)
            now = time.monotonic()
            self._metrics.lateness_seconds.observe(max(0.0, now - before - _MONITOR_SECONDS))
            if now - tended_at > _TEND_EVERY_SECONDS:
                tended_at = now
                await engine.tend()
            if now - collected_at > _COLLECT_EVERY_SECONDS:
                collected_at = now
                if engine.live_tasks() < _COLLECT_BELOW_TASKS:
                    gc.collect()

    def _alive(self) -> str | None:
        engine = self._engine
        if engine is not None and engine.commit_age_seconds > _STUCK_SECONDS:
            return f"the commit in flight has been running for {engine.commit_age_seconds:.0f} s"
        return None

    def _ready(self) -> str | None:
        if self._engine is None:
            return "loading"
        return "stopping" if self._stopping.is_set() else None

    async def _until_over(self, engine: Engine) -> None:
        """Wait for a signal; end the process at once when the engine failed."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((stopping, engine.ended), return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            log.info("stopping")
            return
        stopping.cancel()
        # No handler may run any more: what memory says may not be what the store holds.
        sys.stderr.flush()
        os._exit(EXIT_FAILED)


@contextlib.asynccontextmanager
async def _serving(app: object, listener: socket.socket) -> AsyncIterator[None]:
    server = Server(app, listener)
    task = asyncio.create_task(server.run_until_stopped())
    try:
        yield
    finally:
        server.stop()
        await task


def _open_store(settings: Settings) -> Store:
    if settings.data is None:
        return MemoryStore()
    try:
        return SqliteStore(settings.data, reserve_bytes=settings.min_free_bytes)
    except OSError as error:
        raise SettingsError(f"cannot use the data folder {settings.data}: {error.strerror}") from error


async def _configure(engine: Engine, capabilities: Capabilities) -> None:
    """Apply the capabilities file: a namespace in it that differs from what is known gets a newer generation."""
    commands = []
    for namespace, wanted in capabilities.items():
        known = engine.core.capabilities(namespace)
        if known.capabilities != wanted:
            commands.append(Configure(namespace, known.generation + 1, wanted))
    # Also with nothing to apply: what the start itself changes (leases of a backup that are let go of) is durable
    # before the first caller can ask.
    await engine.submit(commands)


def _raise_file_limit() -> None:
    """Allow as many sockets as the system does: every worker keeps two, and the usual soft limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(host: str, api: socket.socket, ops: socket.socket) -> None:
    listening = {"host": host, "port": api.getsockname()[1], "ops_port": ops.getsockname()[1]}
    print(json.dumps({"listening": listening}), flush=True)
    log.info("listening", **listening)
