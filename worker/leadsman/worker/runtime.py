"""One worker from start to drain: what runs beside what, and in which order it ends."""

import asyncio
import contextlib
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Literal

from leadsman.app import App
from leadsman.connection.http import HttpConnection
from leadsman.logs import bind_attempt, get_logger
from leadsman.payloads import check_payload_types
from leadsman.worker.execution import Execution
from leadsman.worker.health import HealthServer
from leadsman.worker.heartbeats import Heartbeats
from leadsman.worker.holding import Held, Holding, StopReason
from leadsman.worker.isolation.linux import give_back_memory
from leadsman.worker.isolation.nursery import Nursery
from leadsman.worker.isolation.remote import Isolated
from leadsman.worker.leasing import Leasing
from leadsman.worker.loop_watch import LoopWatch
from leadsman.worker.metrics import WorkerMetrics
from leadsman.worker.remembering import Remembering
from leadsman.worker.settings import WorkerSettings
from leadsman.worker.settling import Settling
from leadsman.worker.standing import Standing
from leadsman.worker.verdicts import GivenBack, Verdict

EXIT_CLEAN = 0
EXIT_LEFT_WORK = 1
"""A handler did not end in time and its task is left to reclaim, or no isolated handler could run any more."""
EXIT_WEDGED = 70
"""The event loop was silent for two leases, or the heartbeat thread failed."""

FORCED_SECONDS = 5.0
"""For cancelled handlers to end, after a second signal."""

LoopChoice = Literal["auto", "asyncio", "uvloop"]


class Worker:
    """A worker on the running event loop. `stop` may be called from a signal handler, and twice means at once."""

    def __init__(
        self,
        app: App,
        settings: WorkerSettings,
        fatal: Callable[[str], None],
        nursery: Nursery | None = None,
    ) -> None:
        self._settings = settings
        self._log = get_logger("leadsman.worker")
        self._loop = asyncio.get_running_loop()
        self._standing = Standing(self.drain)
        self._holding = Holding(settings.slots, settings.limits)
        self._connection = HttpConnection(settings.address)
        self._metrics = WorkerMetrics(self._holding, self._standing)
        isolated = None if nursery is None else Isolated(nursery, self._loop, self._no_nursery)
        self._execution = Execution(app, self._loop, isolated)
        self._settling = Settling(self._connection, self._standing)
        remembering = Remembering(self._connection, self._standing, self._loop)
        watch = LoopWatch(self._loop, threading.get_ident())
        self._heartbeats = Heartbeats(settings, self._holding, self._standing, watch, fatal, metrics=self._metrics)
        self._leasing = Leasing(
            settings=settings,
            connection=self._connection,
            holding=self._holding,
            standing=self._standing,
            heartbeats=self._heartbeats,
            watch=watch,
            run=self._begin,
            remember=remembering.remember,
        )
        self._health: HealthServer | None = None
        if settings.health_port is not None:
            self._health = HealthServer(
                settings.health_port, self._standing, lambda: self._heartbeats.alive, self._metrics.render
            )
        self._running: dict[asyncio.Task[None], Held] = {}
        self._asked_to_stop = 0
        self._crippled = False
        self._abandoned: set[asyncio.Task[None]] = set()
        self._told = asyncio.Event()
        self._told_twice = asyncio.Event()

    def stop(self) -> None:
        """Drain; the second time, cancel what runs. Takes no lock: it runs inside signal handlers."""
        self._asked_to_stop += 1
        self.drain()

    def drain(self) -> None:
        """Drain; a stop after it is still the first one. May be called from any thread."""
        self._standing.drain()
        self._loop.call_soon_threadsafe(self._heed_stop)

    async def run(self) -> int:
        """Work until stopped; return the exit code."""
        self._heartbeats.start()
        if self._health is not None:
            self._health.start()
        self._log.info(
            "the worker runs",
            worker=self._settings.identity.id,
            pool=self._settings.identity.pool,
            capabilities=list(self._settings.capabilities),
            slots=self._settings.slots,
            broker=self._settings.address.url,
            namespace=self._settings.address.namespace,
            health_port=None if self._health is None else self._health.port,
        )
        leasing = asyncio.create_task(self._leasing.work(), name="leasing")
        told = asyncio.create_task(self._told.wait())
        await asyncio.wait({leasing, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if leasing.done() and leasing.exception() is not None:
            self._log.error("leasing failed; draining", exc_info=leasing.exception())
            self.drain()
            await self._told.wait()
        try:
            return await self._drain(leasing)
        finally:
            self._heartbeats.stop()
            await self._connection.close()

    async def _drain(self, leasing: "asyncio.Task[list[Held]]") -> int:
        started = time.monotonic()
        self._log.info("draining", tasks=len(self._running))
        await asyncio.wait({leasing})
        failed = leasing.exception() is not None
        for held in [] if failed else leasing.result():
            self._attend(held, GivenBack(str(StopReason.DRAINING)))
        patience = self._settings.drain_seconds - self._settings.closing_seconds
        await self._wait_for_running(started + patience, self._told_twice)
        if self._running:
            forced = self._told_twice.is_set()
            grace = FORCED_SECONDS if forced else self._settings.closing_seconds
            self._log.warning("handlers are told to stop", tasks=len(self._running), forced=forced)
            for held in self._running.values():
                held.stop(StopReason.DRAINING)
            await self._wait_for_running(time.monotonic() + grace, self._told_twice if not forced else None)
        if self._running:
            self._log.error(
                "handlers did not end in time; their tasks are left to reclaim",
                tasks=[held.facts.task_id for held in self._running.values()],
            )
        else:
            self._log.info("drained", seconds=round(time.monotonic() - started, 2))
        return EXIT_LEFT_WORK if self._running or failed or self._crippled else EXIT_CLEAN

    async def _wait_for_running(self, deadline: float, cut_short: asyncio.Event | None) -> None:
        """Wait until nothing runs, the deadline has passed or the event is set."""
        cut = asyncio.create_task(cut_short.wait()) if cut_short is not None else None
        while time.monotonic() < deadline and not (cut_short and cut_short.is_set()):
            running = self._running.keys() - self._abandoned
            if not running:
                break
            waited: set[asyncio.Task[None] | asyncio.Task[bool]] = {*running}
            if cut is not None:
                waited.add(cut)
            timeout = max(0.0, deadline - time.monotonic())
            await asyncio.wait(waited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if cut is not None:
            cut.cancel()

    def _begin(self, held: Held) -> None:
        self._attend(held, None)

    def _attend(self, held: Held, verdict: Verdict | None) -> None:
        task = asyncio.create_task(self._see_through(held, verdict))
        self._running[task] = held
        task.add_done_callback(self._running.pop)
        held.on_lost(lambda: self._lost(task))

    def _lost(self, task: "asyncio.Task[None]") -> None:
        """Note it, in whatever thread it is heard."""
        with contextlib.suppress(RuntimeError):  # a closed loop: the worker has ended
            self._loop.call_soon_threadsafe(self._be_patient, task)

    def _be_patient(self, task: "asyncio.Task[None]") -> None:
        self._loop.call_later(self._settings.lost_grace_seconds, self._abandon, task)

    def _abandon(self, task: "asyncio.Task[None]") -> None:
        """Go, when a handler does not end whose task is somebody else's: its slot would be taken for ever."""
        held = self._running.get(task)
        if held is None:
            return
        self._log.error(
            "a handler goes on although its lease is lost; the worker ends, to be started anew",
            task=held.facts.task_id,
            attempt=held.facts.attempt,
            capability=held.facts.capability,
            grace_seconds=self._settings.lost_grace_seconds,
        )
        self._abandoned.add(task)
        self.drain()

    async def _see_through(self, held: Held, verdict: Verdict | None) -> None:
        """Run the handler unless the verdict is known, settle, and only then free the slot."""
        started = time.monotonic()
        facts = held.facts
        bind_attempt(facts)  # it ends with this task, whose context is its own
        try:
            if verdict is None:
                verdict = await self._execution.run(held)
            self._log.info(
                "the attempt ended",
                outcome=type(verdict).__name__.lower(),
                seconds=round(time.monotonic() - started, 3),
                **_details(verdict),
            )
            await held.stored()
            held.settling = True
            await self._settling.settle(held, verdict)
            outcome = type(verdict).__name__.lower()
            self._metrics.attempt_ended(facts.capability, outcome, time.monotonic() - started)
        except Exception:  # noqa: BLE001  a fault of this program must cost one attempt, not the worker
            self._log.exception("an attempt could not be seen through; its lease is left to expire")
        finally:
            self._holding.remove(held)
            self._leasing.slot_freed()

    def _no_nursery(self) -> None:
        """Go in good order, for the pod to start the worker anew: what is left of it could fail tasks for ever."""
        if not self._crippled:
            self._crippled = True
            self.drain()

    def _heed_stop(self) -> None:
        self._heartbeats.wake()
        self._leasing.stop()
        self._told.set()
        if self._asked_to_stop > 1:
            self._told_twice.set()


def _details(verdict: Verdict) -> dict[str, object]:
    match verdict:
        case GivenBack(reason, delay, _):
            return {"reason": reason, "delay_seconds": delay}
        case _:
            error = getattr(verdict, "error", None)
            return {} if error is None else {"error_type": error.type, "error": error.message[:500]}


def run_worker(app: App, settings: WorkerSettings, loop_choice: LoopChoice = "auto") -> int:
    """Run a worker in this process until SIGTERM or SIGINT has drained it; return the exit code.

    To be called before the process has threads when a handler is isolated.
    """
    check_payload_types(app, settings.capabilities)
    gc.collect()
    gc.freeze()  # what is loaded stays: it need not be looked at again, and handlers in processes share it
    give_back_memory()
    nursery = Nursery(app) if _has_isolated(app, settings) else None
    with asyncio.Runner(loop_factory=_loop_factory(loop_choice)) as runner:
        code = runner.run(_with_signals(app, settings, nursery))
        if code != EXIT_CLEAN:
            # What is left may never end, and an orderly shutdown would wait for it.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if nursery is not None:
        nursery.close()
    return code


def _has_isolated(app: App, settings: WorkerSettings) -> bool:
    return any(each.isolated and each.capability in settings.capabilities for each in app.handlers.values())


async def _with_signals(app: App, settings: WorkerSettings, nursery: Nursery | None) -> int:
    worker = Worker(app, settings, _die, nursery)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        worker.stop()

    # Not loop.add_signal_handler: a blocked loop would hear of the signal only when it turns again.
    kept = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return await worker.run()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _die(message: str) -> None:
    """End this process now: its handlers cannot be trusted to end, and its leases must expire."""
    get_logger("leadsman.worker").critical("the worker gives up", why=message)
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(EXIT_WEDGED)


def _loop_factory(choice: LoopChoice) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if choice == "asyncio":
        return None
    try:
        import uvloop  # noqa: PLC0415  optional
    except ImportError:
        if choice == "uvloop":
            raise
        return None
    return uvloop.new_event_loop
