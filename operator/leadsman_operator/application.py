"""The operator put together: what runs, in which order it starts, and how it ends."""

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, cast

import kopf
import structlog

from leadsman_operator import watching
from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.state import BrokerState, Changed
from leadsman_operator.broker.stream import StatsStream
from leadsman_operator.broker.token import TokenFile
from leadsman_operator.feed import Feed
from leadsman_operator.kube.cache import Cache, Key
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.connection import kopf_login, load_configuration
from leadsman_operator.kube.election import Always, Election
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.listing import list_into
from leadsman_operator.kube.manifest import Injection
from leadsman_operator.kube.resources import WATCHED
from leadsman_operator.metrics import Metrics
from leadsman_operator.ops import OpsServer
from leadsman_operator.reconcile.act import Actor
from leadsman_operator.reconcile.capabilities import CapabilityController
from leadsman_operator.reconcile.controller import PoolController
from leadsman_operator.reconcile.observe import Observer
from leadsman_operator.reconcile.pools import PoolIndex
from leadsman_operator.reconcile.replicas import ReplicaWriter
from leadsman_operator.reconcile.reporting import Reporter
from leadsman_operator.reconcile.scale_in import ScaleInDriver
from leadsman_operator.reconcile.startup import PodBirths
from leadsman_operator.reconcile.workload import Workloads
from leadsman_operator.scaling.model import SIGNAL_STALE_SECONDS
from leadsman_operator.settings import OperatorSettings
from leadsman_operator.workqueue import WorkQueue

_log = structlog.get_logger(__name__)

_FIRST_SIGNAL_SECONDS = 5.0
"""How long a new leader waits for the broker's first numbers before it looks at pools without them."""
_FIRST_CHECK_SECONDS = 10.0
"""After the watches began: what was deleted between our list and theirs is found out."""
_CHECK_SECONDS = 600.0
_PULSE_SECONDS = 1.0
_STUCK_SECONDS = 180.0
"""Pools that are due and none looked at for so long: the process is to be restarted."""


class Application:
    """One operator process. A context manager: entering builds it, `run` serves until a signal or a failure."""

    def __init__(self, settings: OperatorSettings) -> None:
        self._settings = settings
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._heard = asyncio.Event()
        self._failed: BaseException | None = None
        self._synced = False
        self._pulse_at = 0.0
        self._leading = False

    async def __aenter__(self) -> Self:
        settings, stack = self._settings, self._stack
        loop = asyncio.get_running_loop()
        self._pulse_at = loop.time()
        self._metrics = Metrics()
        self._client = await stack.enter_async_context(KubeClient(await load_configuration()))
        self._broker = await stack.enter_async_context(
            BrokerClient(settings.broker_url, TokenFile(settings.broker_token_file))
        )
        self._state = BrokerState(stale_seconds=SIGNAL_STALE_SECONDS)
        self._stream = StatsStream(self._broker, self._state, self._broker_changed)
        self._leadership: Always | Election = (
            Election(
                self._client,
                namespace=settings.lease_namespace,
                name=settings.lease_name,
                identity=settings.identity,
                changed=self._leadership_changed,
            )
            if settings.leader_election
            else Always()
        )
        self._assemble()
        self._ops = await stack.enter_async_context(
            OpsServer(
                settings.ops_host,
                settings.ops_port,
                registry=self._metrics.registry,
                live=self._not_live,
                ready=self._not_ready,
                before_scrape=self._measure,
            )
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop_acting()
        await self._stack.aclose()

    @property
    def ops_port(self) -> int:
        """The port that probes and scrapes are answered on."""
        return self._ops.port

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT. Raises what made the operator end by itself."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        self._spawn("events", self._events.run())
        self._spawn("broker stream", self._stream.run())
        self._spawn("pulse", self._pulse())
        if not await self._unless_stopped(self._first_lists()):
            return
        self._synced = True
        self._spawn("checks", self._checks())
        self._spawn("election", self._leadership.run())
        if isinstance(self._leadership, Always):
            self._leadership_changed(leads=True)
        await self._watch()
        if self._failed is not None:
            raise self._failed

    def _assemble(self) -> None:
        settings = self._settings
        self._cache, self._index, births = Cache(), PoolIndex(), PodBirths()
        self._events = EventRecorder(self._client, settings.identity, dropped=self._metrics.events_dropped.inc)
        observer = Observer(self._cache, self._state, births)
        writer = ReplicaWriter(self._client, self._cache, self._leadership, self._events, self._metrics)
        injection = Injection(broker_url=settings.worker_broker_url, audience=settings.audience)
        workloads = Workloads(self._client, self._cache, self._leadership, injection)
        scale_in = ScaleInDriver(
            client=self._client,
            cache=self._cache,
            broker=self._broker,
            leadership=self._leadership,
            writer=writer,
            events=self._events,
            metrics=self._metrics,
        )
        self._controller = PoolController(
            cache=self._cache,
            index=self._index,
            observer=observer,
            workloads=workloads,
            actor=Actor(
                client=self._client,
                cache=self._cache,
                observer=observer,
                workloads=workloads,
                writer=writer,
                scale_in=scale_in,
                events=self._events,
                leadership=self._leadership,
                metrics=self._metrics,
            ),
            reporter=Reporter(self._client, self._leadership, self._events, self._metrics),
            events=self._events,
            leadership=self._leadership,
            metrics=self._metrics,
            conflict_quiet_seconds=settings.conflict_quiet_seconds,
        )
        self._capabilities = CapabilityController(
            client=self._client,
            cache=self._cache,
            index=self._index,
            broker=self._broker,
            state=self._state,
            events=self._events,
            leadership=self._leadership,
            metrics=self._metrics,
            startup_seconds=self._controller.startup_seconds,
            scope=lambda namespace: not settings.namespaces or namespace in settings.namespaces,
        )
        self._pools: WorkQueue[Key] = WorkQueue(self._controller.look, on_failure=self._look_failed)
        self._namespaces: WorkQueue[str] = WorkQueue(self._capabilities.look, at_once=16)
        self._feed = Feed(
            cache=self._cache,
            index=self._index,
            births=births,
            controller=self._controller,
            pools=self._pools,
            namespaces=self._namespaces,
            forget_capability=self._capabilities.forget,
        )

    async def _first_lists(self) -> None:
        """Fill the cache; nothing is decided from a part of the truth."""
        pause = 0.5
        for kind in WATCHED:
            for namespace in self._settings.scopes:
                while True:
                    try:
                        changed = await list_into(self._client, self._cache, kind, namespace)
                    except (ApiError, UnreachableError) as error:
                        _log.warning("first list failed", kind=kind.plural, namespace=namespace, error=str(error))
                        await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load
                        pause = min(15.0, pause * 2)
                        continue
                    for obj in changed:
                        self._feed.changed(kind, obj)
                    break
        _log.info("cache filled", **{kind.plural: self._cache.count(kind) for kind in WATCHED})

    async def _watch(self) -> None:
        """Run kopf until it ends or we are told to stop; its loop-wide clean-up at the end spares our tasks."""
        ours = asyncio.all_tasks()
        stop = asyncio.Event()
        tasks = await kopf.spawn_tasks(
            registry=watching.registry(self._feed, self._kopf_login),
            settings=watching.settings(),
            standalone=True,
            clusterwide=not self._settings.namespaces,
            namespaces=self._settings.namespaces,
            stop_flag=stop,
            # Else kopf looks up the user's name, which a numeric user of a container does not have.
            identity=cast(Any, self._settings.identity),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        ending = asyncio.create_task(self._end_watch(stop), name="end of watch")
        try:
            await kopf.run_tasks(tasks, ignored=ours | {ending})
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _end_watch(self, stop: asyncio.Event) -> None:
        await self._stopping.wait()
        await self._stop_acting()
        stop.set()

    async def _stop_acting(self) -> None:
        """Act no more, give the lease back, and end our tasks. Safe to call twice."""
        await self._pools.stop()
        await self._namespaces.stop()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._leadership.release()

    async def _kopf_login(self) -> kopf.ConnectionInfo:
        return await kopf_login(await load_configuration())

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work; False when we were told to stop before it was done."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return False
        await task
        return not self._stopping.is_set()

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._task_ended)
        self._tasks.append(task)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        _log.error("a part of the operator failed", part=task.get_name(), error=repr(task.exception()))
        self._failed = task.exception()
        self._stopping.set()

    def _leadership_changed(self, leads: bool) -> None:
        self._metrics.leader.set(leads)
        self._leading = leads
        if leads:
            self._spawn("begin to lead", self._begin_to_lead())

    async def _begin_to_lead(self) -> None:
        """Start from nothing: the window of scale-in is full only after its whole length under this leader."""
        loop = asyncio.get_running_loop()
        self._controller.lead(loop.time())
        self._capabilities.lead()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SIGNAL_SECONDS):
                await self._heard.wait()
        self._pools.start()
        self._namespaces.start()
        self._feed.everything()
        for namespace in self._capabilities.namespaces():
            self._namespaces.add(namespace)

    def _broker_changed(self, change: Changed) -> None:
        self._heard.set()
        if self._synced:
            self._feed.broker(change, self._state)

    async def _checks(self) -> None:
        """List everything again from time to time: kopf loses deletions over a re-list."""
        await asyncio.sleep(_FIRST_CHECK_SECONDS)
        while True:
            for kind in WATCHED:
                for namespace in self._settings.scopes:
                    try:
                        changed = await list_into(self._client, self._cache, kind, namespace)
                    except (ApiError, UnreachableError) as error:
                        _log.warning("check failed", kind=kind.plural, namespace=namespace, error=str(error))
                        continue
                    for obj in changed:
                        self._feed.changed(kind, obj)
            self._feed.everything()
            await asyncio.sleep(_CHECK_SECONDS * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load

    async def _pulse(self) -> None:
        """Show that the loop turns, and wake the pools when the signal is lost or comes back."""
        loop = asyncio.get_running_loop()
        fresh = False
        while True:
            self._pulse_at = loop.time()
            now_fresh = self._state.fresh(loop.time())
            if now_fresh != fresh and self._synced:
                fresh = now_fresh
                self._feed.everything()
            await asyncio.sleep(_PULSE_SECONDS)

    def _look_failed(self, key: Key, error: Exception) -> None:
        self._metrics.look_failures.labels(*key).inc()

    def _measure(self) -> None:
        age = self._state.age_seconds(asyncio.get_running_loop().time())
        self._metrics.signal_age.set(float("inf") if age is None else age)
        self._metrics.pools.set(len(self._index.all_keys()))
        self._metrics.queue_depth.set(self._pools.depth)

    def _not_live(self) -> str | None:
        """From the loop and the age of the last look alone: a broker that is away is no reason to restart us."""
        now = asyncio.get_running_loop().time()
        if now - self._pulse_at > 30 * _PULSE_SECONDS:
            return f"the loop has not turned for {now - self._pulse_at:.0f} s"
        if self._leading and self._pools.depth and now - self._pools.last_look_at > _STUCK_SECONDS:
            return f"pools are due and none was looked at for {now - self._pools.last_look_at:.0f} s"
        return None

    def _not_ready(self) -> str | None:
        return None if self._synced else "the first lists are not complete"


async def serve(settings: OperatorSettings) -> None:
    """Run one operator until it is told to end. Raises NoCredentialsError, OSError and what ended a part of it."""
    async with Application(settings) as application:
        if settings.ops_port == 0:
            host = "127.0.0.1" if settings.ops_host == "0.0.0.0" else settings.ops_host  # noqa: S104 - compares only
            sys.stdout.write(f'{{"listening": {{"host": "{host}", "ops_port": {application.ops_port}}}}}\n')
            sys.stdout.flush()
        await application.run()
