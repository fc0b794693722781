"""The life of an operator process: what starts in which order, what ends it, and how it ends."""

import asyncio
import contextlib
import gc
import random
import signal
import sys
from collections.abc import Coroutine
from itertools import product
from types import TracebackType
from typing import Any, Self, cast

import kopf
import structlog

from leadsman_operator import watching
from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.state import Changed
from leadsman_operator.broker.stream import StatsStream
from leadsman_operator.broker.token import TokenFile
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.connection import kopf_login, load_configuration
from leadsman_operator.kube.election import Always
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.listing import list_into
from leadsman_operator.kube.resources import WATCHED, Kind
from leadsman_operator.ops import OpsServer
from leadsman_operator.parts import Parts
from leadsman_operator.relisting import relist
from leadsman_operator.settings import OperatorSettings

_log = structlog.get_logger(__name__)

_FIRST_SIGNAL_SECONDS = 5.0
"""How long a new leader waits for the broker's first numbers before it looks at pools without them."""
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
        self._leading = False
        self._term: int | None = None
        """Of the leadership that was begun last."""
        self._pulse_at = 0.0

    async def __aenter__(self) -> Self:
        settings, stack = self._settings, self._stack
        self._pulse_at = asyncio.get_running_loop().time()
        client = await stack.enter_async_context(KubeClient(await load_configuration()))
        # A lease that waits behind a thousand statuses would be lost.
        lease_client = await stack.enter_async_context(KubeClient(await load_configuration()))
        broker = await stack.enter_async_context(
            BrokerClient(settings.broker_url, TokenFile(settings.broker_token_file))
        )
        self._parts = Parts(
            settings,
            client=client,
            lease_client=lease_client,
            broker=broker,
            leadership_changed=self._leadership_changed,
        )
        self._ops = await stack.enter_async_context(
            OpsServer(
                settings.ops_host,
                settings.ops_port,
                registry=self._parts.metrics.registry,
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
        self._take_signals()
        parts = self._parts
        self._spawn("events", parts.events.run())
        self._spawn("broker stream", StatsStream(parts.broker, parts.state, self._broker_changed).run())
        self._spawn("pulse", self._pulse())
        if not await self._unless_stopped(self._first_lists()):
            return
        _set_aside()
        self._synced = True
        self._spawn("lists", relist(self._list, [*product(WATCHED, self._settings.scopes)]))
        self._spawn("election", parts.leadership.run())
        if isinstance(parts.leadership, Always):
            self._leadership_changed(leads=True)
        await self._watch()
        if self._failed is not None:
            raise self._failed

    async def _first_lists(self) -> None:
        """Fill the cache; nothing is decided from a part of the truth."""
        for kind, namespace in product(WATCHED, self._settings.scopes):
            pause = 0.5
            while not await self._list(kind, namespace):
                await asyncio.sleep(_jittered(pause))
                pause = min(15.0, pause * 2)
        _log.info("cache filled", **{kind.plural: self._parts.cache.count(kind) for kind in WATCHED})

    async def _list(self, kind: Kind, namespace: str | None) -> bool:
        parts = self._parts
        try:
            changed = await list_into(parts.client, parts.cache, kind, namespace)
        except (ApiError, UnreachableError) as error:
            _log.warning("list failed", kind=kind.plural, namespace=namespace, error=str(error))
            return False
        for obj in changed:
            parts.feed.changed(kind, obj)
        return True

    async def _watch(self) -> None:
        """Run kopf until it ends or we are told to stop; its loop-wide clean-up at the end spares our tasks."""
        ours = asyncio.all_tasks()
        stop = asyncio.Event()
        tasks = await kopf.spawn_tasks(
            registry=watching.registry(self._parts.feed, self._kopf_login),
            settings=watching.settings(),
            standalone=True,
            clusterwide=not self._settings.namespaces,
            namespaces=self._settings.namespaces,
            stop_flag=stop,
            # Else kopf looks up the user's name, which a numeric user of a container does not have.
            identity=cast(Any, self._settings.identity),
        )
        # kopf has just taken them for itself; we have a lease to give back first.
        self._take_signals()
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
        await self._parts.stop_looking()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._parts.leadership.release()

    async def _kopf_login(self) -> kopf.ConnectionInfo:
        return await kopf_login(await load_configuration())

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)

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
        if task in self._tasks:
            self._tasks.remove(task)
        if task.cancelled() or task.exception() is None:
            return
        _log.error("a part of the operator failed", part=task.get_name(), error=repr(task.exception()))
        self._failed = task.exception()
        self._stopping.set()

    def _leadership_changed(self, leads: bool) -> None:
        self._parts.metrics.leader.set(leads)
        self._leading = leads
        if not leads:
            return
        if self._parts.leadership.term == self._term:
            # The lease was ours all the time, only unrenewed for too long: what was not done in that time is due. A
            # machine that is too busy to renew it in time has no time to look at everything.
            self._parts.feed.missed(self._parts.controller.take_missed())
            return
        self._term = self._parts.leadership.term
        self._spawn("begin to lead", self._begin_to_lead())

    async def _begin_to_lead(self) -> None:
        """Start from nothing: the window of scale-in is full only after its whole length under this leader."""
        parts = self._parts
        parts.controller.lead(asyncio.get_running_loop().time())
        parts.capabilities.lead()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SIGNAL_SECONDS):
                await self._heard.wait()
        parts.start_looking()

    def _broker_changed(self, change: Changed) -> None:
        self._heard.set()
        if self._synced:
            self._parts.feed.broker(change)

    async def _pulse(self) -> None:
        """Show that the loop turns, and wake the pools when the signal is lost. Its return is news by itself."""
        loop = asyncio.get_running_loop()
        fresh = False
        due = loop.time()
        while True:
            self._pulse_at = loop.time()
            self._parts.metrics.tick_lateness.observe(max(0.0, self._pulse_at - due))
            due = self._pulse_at + _PULSE_SECONDS
            was_fresh, fresh = fresh, self._parts.state.fresh(loop.time())
            if was_fresh and not fresh:
                self._parts.feed.everything()
            await asyncio.sleep(_PULSE_SECONDS)

    def _measure(self) -> None:
        parts = self._parts
        age = parts.state.age_seconds(asyncio.get_running_loop().time())
        parts.metrics.signal_age.set(float("inf") if age is None else age)
        parts.metrics.pools.set(len(parts.index.all_keys()))
        parts.metrics.queue_depth.set(parts.pools.depth)

    def _not_live(self) -> str | None:
        """From the loop and the age of the last look alone: a broker that is away is no reason to restart us."""
        now, pools = asyncio.get_running_loop().time(), self._parts.pools
        if now - self._pulse_at > 30 * _PULSE_SECONDS:
            return f"the loop has not turned for {now - self._pulse_at:.0f} s"
        if self._leading and pools.depth and now - pools.last_look_at > _STUCK_SECONDS:
            return f"pools are due and none was looked at for {now - pools.last_look_at:.0f} s"
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


def _set_aside() -> None:
    """Leave what was loaded and listed so far out of further searches for cycles.

    With a thousand pools each search takes a tenth of a second, and the reading of one list starts several. What is
    set aside still goes with its last reference.
    """
    gc.collect()
    gc.freeze()


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, keeps no secret
