"""A worker process as the broker sees one: it leases, renews, settles, obeys a fence and drains.

What it holds and when is written down here, so that a test knows which pods were busy without asking the broker.
"""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
from pydantic import JsonValue

from leadsman.wire.leases import (
    AckItem,
    AckRequest,
    HeartbeatItem,
    HeartbeatRequest,
    Lease,
    LeaseRequest,
    LeaseStatus,
    WorkerIdentity,
    WorkerState,
)

from .broker import BrokerClient, BrokerRefusedError
from .waiting import happens_within

_PARKED_SECONDS = 10.0
_PARKED_END_SECONDS = 3.0
_HEARTBEAT_SECONDS = 5.0
_FENCED_LOOK_SECONDS = 0.25
_RETRY_SECONDS = 0.2
_AWAY = (aiohttp.ClientError, TimeoutError, BrokerRefusedError)


@dataclass(frozen=True)
class Assignment:
    """What a pod's environment tells its worker."""

    pod_uid: str
    pod_name: str
    namespace: str
    pool: str
    capabilities: tuple[str, ...]
    slots: int


@dataclass(frozen=True)
class Pace:
    """How a worker behaves: seconds, drawn anew each time."""

    service: Callable[[random.Random], float] = lambda rng: rng.uniform(0.2, 1.5)
    """How long a task takes whose payload does not say `{"seconds": n}` or `{"hold": true}`."""
    pause: Callable[[random.Random], float] = lambda rng: rng.uniform(0.0, 0.3)
    """Between settling a task and asking for the next."""


@dataclass
class Held:
    """One lease in a worker's hands."""

    lease: Lease
    since: float
    work: "asyncio.Task[None] | None" = None
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the test: this task ends now, if its payload is `{"hold": true}`."""


@dataclass
class Book:
    """What a whole fleet's workers did, by task id."""

    completed: dict[str, int] = field(default_factory=dict)
    """Task id -> acks that the broker accepted."""
    started: dict[str, int] = field(default_factory=dict)
    """Task id -> deliveries to a handler."""
    lost: list[str] = field(default_factory=list)
    """Task ids whose lease was no longer the worker's at heartbeat or settlement."""
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the test: tasks with the payload `{"hold": true}` end now."""


class Worker:
    """One life of one worker process. `ready` is what its readiness probe would answer."""

    def __init__(
        self,
        assignment: Assignment,
        broker: BrokerClient,
        book: Book,
        rng: random.Random,
        pace: Pace,
        readiness_changed: Callable[[], None],
    ) -> None:
        self.assignment = assignment
        self.state = WorkerState.ACTIVE
        self.held: dict[str, Held] = {}
        self.last_ended: tuple[str, float] | None = None
        """The task it let go of last, and when (monotonic seconds)."""
        self._broker = broker
        self._book = book
        self._rng = rng
        self._pace = pace
        self._readiness_changed = readiness_changed
        self._identity = WorkerIdentity(
            pod_uid=assignment.pod_uid,
            incarnation=secrets.token_hex(4),
            pool=assignment.pool,
            pod_name=assignment.pod_name,
        )
        self._connected = False
        self._draining = False
        self._freed = asyncio.Event()
        self._restated = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> bool:
        """False while not yet connected, fenced or draining; never because it is busy or cordoned."""
        may_work = self.state in {WorkerState.ACTIVE, WorkerState.CORDONED}
        return self._connected and not self._draining and may_work

    def start(self) -> None:
        """Begin to ask for work."""
        self._loops = [asyncio.create_task(self._lease_loop()), asyncio.create_task(self._heartbeat_loop())]

    async def drain(self) -> None:
        """SIGTERM: lease nothing more, finish what is held, then end."""
        self._draining = True
        self._readiness_changed()
        self._freed.set()
        # The broker ends the parked call of a worker that says it drains; what that call was given is still served.
        with contextlib.suppress(*_AWAY):
            await self._beat()
        await asyncio.wait([self._loops[0]], timeout=_PARKED_END_SECONDS)
        self._loops[0].cancel()
        while work := [held.work for held in self.held.values() if held.work]:
            await asyncio.wait(work)
        await self.kill()

    async def kill(self) -> None:
        """End at once, telling nobody. What it held stays in `held`."""
        tasks = [*self._loops, *(held.work for held in self.held.values() if held.work)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _lease_loop(self) -> None:
        attempt = secrets.token_hex(8)
        while not self._draining:
            free = self.assignment.slots - len(self.held)
            if not free:
                self._freed.clear()
                await self._freed.wait()
                await asyncio.sleep(self._pace.pause(self._rng))
                continue
            request = LeaseRequest(
                worker=self._identity,
                capabilities=list(self.assignment.capabilities),
                slots=self.assignment.slots,
                free_slots=free,
                attempt_id=attempt,
                held=list(self.held),
                wait_seconds=_PARKED_SECONDS,
            )
            try:
                reply = await self._broker.lease(self.assignment.namespace, request)
            except _AWAY:
                # The same attempt again: what a lost reply carried comes back with it.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            attempt = secrets.token_hex(8)
            for lease in reply.leases:
                self._take(lease)
            self._hear(reply.worker)
            if reply.worker is not WorkerState.ACTIVE:
                await asyncio.sleep(_FENCED_LOOK_SECONDS)

    def _take(self, lease: Lease) -> None:
        if lease.token in self.held:
            return
        held = self.held[lease.token] = Held(lease, time.monotonic())
        self._book.started[lease.task.id] = self._book.started.get(lease.task.id, 0) + 1
        held.work = asyncio.create_task(self._serve(lease, held.let_go))

    async def _serve(self, lease: Lease, let_go: asyncio.Event) -> None:
        await self._run(lease.task.payload, let_go)
        request = AckRequest(acks=[AckItem(token=lease.token)])
        while True:
            try:
                reply = await self._broker.ack(self.assignment.namespace, request)
            except _AWAY:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            break
        task_id = lease.task.id
        if reply.results[0].ok:
            self._book.completed[task_id] = self._book.completed.get(task_id, 0) + 1
        else:
            self._book.lost.append(task_id)
        self._let_go(lease.token)

    async def _run(self, payload: JsonValue, let_go: asyncio.Event) -> None:
        wish = payload if isinstance(payload, dict) else {}
        if wish.get("hold"):
            both = [asyncio.ensure_future(event.wait()) for event in (let_go, self._book.let_go)]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in both:
                    one.cancel()
            return
        seconds = wish.get("seconds")
        await asyncio.sleep(self._pace.service(self._rng) if seconds is None else float(str(seconds)))

    def _let_go(self, token: str) -> None:
        held = self.held.pop(token, None)
        if held:
            self.last_ended = (held.lease.task.id, time.monotonic())
        self._freed.set()

    async def _heartbeat_loop(self) -> None:
        """Heartbeats; the first at once, since a parked lease call does not say that the broker was reached."""
        while True:
            with contextlib.suppress(*_AWAY):
                await self._beat()
            fenced = self.state is WorkerState.FENCED
            wanted = [held.lease.heartbeat_seconds for held in self.held.values()]
            self._restated.clear()
            await happens_within(
                self._restated, _FENCED_LOOK_SECONDS if fenced else min([_HEARTBEAT_SECONDS, *wanted])
            )

    async def _beat(self) -> None:
        request = HeartbeatRequest(
            worker=self._identity,
            capabilities=list(self.assignment.capabilities),
            slots=self.assignment.slots,
            draining=self._draining,
            leases=[HeartbeatItem(token=token) for token in self.held],
        )
        reply = await self._broker.heartbeat(self.assignment.namespace, request)
        self._hear(reply.worker)
        for result in reply.leases:
            held = self.held.get(result.token)
            if held and result.status is not LeaseStatus.OK:
                if held.work:
                    held.work.cancel()
                self._book.lost.append(held.lease.task.id)
                self._let_go(result.token)

    def _hear(self, state: WorkerState) -> None:
        before = self.ready
        self._connected = True
        if state is not self.state:
            self.state = state
            self._restated.set()
        if self.ready != before:
            self._readiness_changed()
