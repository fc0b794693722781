"""Drives the core: gather, read, step, commit, reply.

One commit is in flight on its own thread; what arrives meanwhile is the next batch, so a batch is as large as the
disk is slow and nobody waits for a timer. A reply leaves when its commit is durable. Reads of stats do not wait.

When a commit fails, memory is ahead of the store and nobody may learn what it says: the engine ends with the error
and the process must follow. Everything that was acknowledged is in the store and is there at the next start.
"""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from leadsman.wire.leases import WorkerState
from leadsman_broker.core.commands import Abandon, Ack, Command, Enqueue, Lease, Purge, Redrive
from leadsman_broker.core.core import Core, Step
from leadsman_broker.core.results import Answer, Result
from leadsman_broker.core.rows import Changes, Loaded, RunRow
from leadsman_broker.engine.calls import LeaseCall, LeaseGrant
from leadsman_broker.engine.clock import Clock
from leadsman_broker.engine.feed import Feed
from leadsman_broker.engine.fresh import FreshDeliveries
from leadsman_broker.engine.randomness import SecureRandom
from leadsman_broker.engine.reads import Reads
from leadsman_broker.engine.watch import Watches
from leadsman_broker.engine.writer import Worker
from leadsman_broker.metrics import EngineMetrics
from leadsman_broker.store.cost import CostLine, CostQuery
from leadsman_broker.store.dead import DeadGroup, DeadQuery
from leadsman_broker.store.interface import Delivery, RunQuery, Store, TaskPage, TaskQuery, TaskRecord

_STEP_TASKS = 500
"""Tasks in one step at most. While a commit is on its way, the loop answers the callers of the one before and reads
the requests of the next; with steps of all that waits, loop and disk would take turns at being idle, and what a
step touches would not stay in the processor's cache."""

_SETTLING_PASSES = 4
"""Turns of the event loop between a timer and what it does: poll sockets, start their requests, read their bodies,
queue their commands. What has arrived counts before what has run out."""

_LATE_COMMIT_SECONDS = 5.0
"""When a commit takes longer, nobody knows when the next one will be: new work is refused until it has ended."""

_FRESH_BYTES = 16 * 1024 * 1024

_YOUNG_OBJECTS = 20_000
"""New objects after which the youngest generation is searched for cycles (about a millisecond)."""

log = structlog.get_logger()


class ClosingError(Exception):
    """The broker is shutting down and takes no more commands."""


class StorageLowError(Exception):
    """Room is low: new work is refused so that accepted work can be finished."""


class StorageBusyError(Exception):
    """A commit has been under way for long: new work is refused, as its answer could take as long."""


@dataclass(slots=True, eq=False)
class _Group:
    """Commands of one request, applied in one step."""

    commands: Sequence[Command]
    reply: asyncio.Future[list[Result]]
    weight: int
    grows: bool
    """It adds work, so it needs room."""


@dataclass(slots=True)
class _Batch:
    """What one step applies, and who waits for it."""

    commands: list[Command] = field(default_factory=list)
    groups: list[tuple[_Group, int]] = field(default_factory=list)
    """With the place of each group's first command."""
    calls: list[LeaseCall] = field(default_factory=list)
    abandoned: list[int] = field(default_factory=list)


class Engine:
    """The broker's state and its history. Everything happens on the event loop but commits and reads."""

    def __init__(self, core: Core, store: Store, clock: Clock, feed: Feed, metrics: EngineMetrics) -> None:
        self.core = core
        self.clock = clock
        self.feed = feed
        self.watches = Watches()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when the engine stopped; with the error when it failed."""
        self._store = store
        self._reads = Reads(store)
        self._metrics = metrics
        self._rand = SecureRandom()
        self._fresh = FreshDeliveries(_FRESH_BYTES)
        self._writer = Worker("leadsman-commit")
        self._reader = Worker("leadsman-read")
        self._lister = Worker("leadsman-list")
        self._queue: deque[_Group | LeaseCall | Abandon] = deque()
        self._wake = asyncio.Event()
        self._calls: dict[int, LeaseCall] = {}
        self._next_call = 0
        self._closing = False
        self._committing_since: float | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work."""
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._stopped)

    async def drain(self) -> None:
        """Take no more commands, finish what was queued, and answer parked calls empty."""
        self._closing = True
        self._wake.set()
        self.watches.close()
        await self.feed.close()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def tend(self) -> None:
        """Let the store keep house, between two commits."""
        await self._writer.call(self._store.tend)

    def close(self) -> None:
        """Give up the store. Nothing may be called afterwards."""
        self._writer.stop()
        self._reader.stop()
        self._lister.stop()
        self._store.close()

    # Commands

    def submit(self, commands: Sequence[Command], *, grows: bool = False) -> asyncio.Future[list[Result]]:
        """Apply commands in one step; the future has their results once they are durable.

        `grows`: they add work, and the future may have StorageLowError or StorageBusyError. Raises ClosingError,
        StorageBusyError.
        """
        self._refuse_when_closing()
        if grows and self.commit_age_seconds > _LATE_COMMIT_SECONDS:
            raise StorageBusyError
        reply: asyncio.Future[list[Result]] = self._loop.create_future()
        weight = sum(_weight(command) for command in commands)
        self._queue.append(_Group(commands, reply, weight, grows))
        self._wake.set()
        return reply

    def lease(self, command: Lease) -> LeaseCall:
        """Ask for tasks; the call may be parked. Raises ClosingError."""
        self._refuse_when_closing()
        call = LeaseCall(command, self._loop.create_future())
        self._queue.append(call)
        self._wake.set()
        return call

    def abandon(self, call: LeaseCall) -> None:
        """Drop a call whose socket is gone, so that it gets nothing."""
        call.gone = True
        self._queue.append(Abandon(call.command.call))
        self._wake.set()

    def next_call(self) -> int:
        """Return a number for a lease call, unique in the life of this process."""
        self._next_call += 1
        return self._next_call

    # Reads of the store: what is committed, from another thread, beside a commit in flight

    def task(self, namespace: str, task_id: str) -> asyncio.Future[TaskRecord | None]:
        """Read one task."""
        return self._reader.call(self._reads.task, namespace, task_id, self.clock.now())

    def payload(self, namespace: str, task_id: str) -> asyncio.Future[bytes | None]:
        """Read the payload of a live or dead task."""
        return self._reader.call(self._reads.payload, namespace, task_id)

    def dead(self, query: DeadQuery) -> asyncio.Future[TaskPage]:
        """Read a page of a dead-letter queue."""
        return self._lister.call(self._store.dead, query, self.clock.now())

    def dead_groups(self, query: DeadQuery) -> asyncio.Future[list[DeadGroup]]:
        """Add up a dead-letter queue by reason and error."""
        return self._lister.call(self._store.dead_groups, query, self.clock.now())

    def redriven_by(self, operation: str, after: int) -> asyncio.Future[int]:
        """Count what a redrive of this name brought back."""
        return self._lister.call(self._store.redriven_by, operation, after)

    def tasks(self, query: TaskQuery) -> asyncio.Future[TaskPage]:
        """Read a page of tasks in order of acceptance."""
        return self._lister.call(self._store.tasks, query, self.clock.now())

    def run(self, namespace: str, run_id: str) -> asyncio.Future[RunRow | None]:
        """Read one run."""
        return self._lister.call(self._store.run, namespace, run_id)

    def runs(self, query: RunQuery) -> asyncio.Future[list[RunRow]]:
        """Read a page of runs, the newest first."""
        return self._lister.call(self._store.runs, query)

    def cost(self, query: CostQuery) -> asyncio.Future[list[CostLine]]:
        """Add up the ledger."""
        return self._lister.call(self._store.cost, query)

    # What the operator of the broker sees

    @property
    def parked(self) -> int:
        """Lease calls that wait."""
        return len(self._calls)

    @property
    def queued(self) -> int:
        """Requests that wait for the next step."""
        return len(self._queue)

    def live_tasks(self) -> int:
        """Count the tasks in memory."""
        now = self.clock.now()
        found = (self.core.queue_stats(key, now) for key in self.core.queue_keys())
        return sum(stats.ready + stats.delayed + stats.leased for stats in found if stats is not None)

    @property
    def commit_age_seconds(self) -> float:
        """How long the commit in flight has been running; 0 when none is."""
        return 0.0 if self._committing_since is None else time.monotonic() - self._committing_since

    # The loop

    async def _run(self) -> None:
        while True:
            await self._until_due()
            if self._closing and not self._queue:
                if not self._calls:
                    return
                self._queue.extend(Abandon(number) for number in self._calls)
            await self._turn()
            if gc.get_count()[0] > _YOUNG_OBJECTS:
                gc.collect(0)

    async def _until_due(self) -> None:
        """Wait for a command, for the core's next deadline, or for the end."""
        if self._queue or self._closing:
            return
        self._wake.clear()
        deadline = self.core.next_deadline()
        if deadline is None:
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout(max(0.0, deadline - self.clock.now())):
                await self._wake.wait()
        except TimeoutError:
            for _ in range(_SETTLING_PASSES):
                await asyncio.sleep(0)

    async def _turn(self) -> None:
        """One step: from the queue to the replies."""
        batch = self._gather()
        commands = batch.commands
        commands.extend(self.core.chores(self.clock.now()))
        needs = self.core.needs(commands)
        loaded = await self._writer.call(self._reads.read, needs) if needs else Loaded()
        started = time.perf_counter()
        step = self.core.step(commands, loaded, self.clock.now(), self._rand)
        self._metrics.step_seconds.observe(time.perf_counter() - started)
        self.feed.note(self.core.take_changed())
        for call in batch.calls:
            self._calls[call.command.call] = call
        answered = {answer.call for answer in step.answers}
        for call in batch.calls:
            call.parked = call.command.call not in answered
        deliveries = await self._commit(step)
        self._reply(batch, step, deliveries)
        self.watches.ended(step.changes.ended)

    def _gather(self) -> _Batch:
        batch = _Batch()
        weight = 0
        low: bool | None = None
        while self._queue and weight < _STEP_TASKS:
            item = self._queue.popleft()
            if isinstance(item, LeaseCall):
                if item.gone:
                    continue
                batch.calls.append(item)
                batch.commands.append(item.command)
                weight += item.command.free_slots
            elif isinstance(item, Abandon):
                batch.abandoned.append(item.call)
                batch.commands.append(item)
            else:
                if item.grows:
                    low = self._store.space().low if low is None else low
                    if low:
                        if not item.reply.done():
                            item.reply.set_exception(StorageLowError())
                        continue
                batch.groups.append((item, len(batch.commands)))
                batch.commands.extend(item.commands)
                weight += item.weight
        return batch

    async def _commit(self, step: Step) -> dict[str, Delivery]:
        """Make the step durable; return payloads of the tasks it leased."""
        granted = {lease.task_id: lease for answer in step.answers for lease in answer.leases}
        self._fresh.follow(step.changes)
        deliveries, unknown = self._fresh.take([*granted]) if granted else ({}, [])
        if not step.changes and not unknown:
            return deliveries
        first = [task_id for task_id in unknown if granted[task_id].first]
        later = [task_id for task_id in unknown if not granted[task_id].first]
        # Nothing that this commit changes is read of them, so that they are read while the disk works.
        beside = self._reader.call(self._reads.deliveries, first, first=True) if first else None
        started = time.monotonic()
        self._committing_since = started
        refusing = self._loop.call_later(_LATE_COMMIT_SECONDS, self._refuse_what_waits)
        deliveries |= await self._writer.call(self._commit_and_read, step.changes, later)
        refusing.cancel()
        self._committing_since = None
        self._metrics.committed(time.monotonic() - started, step.changes)
        if beside is not None:
            deliveries |= await beside
            # A burst of large tasks, leased in the step that accepts them: they were not there yet.
            late = [task_id for task_id in first if task_id not in deliveries]
            deliveries |= await self._reader.call(self._reads.deliveries, late) if late else {}
        return deliveries

    def _commit_and_read(self, changes: Changes, task_ids: list[str]) -> dict[str, Delivery]:
        """Run on the writer's thread: one hop for both."""
        if changes:
            self._store.commit(changes)
        return self._reads.deliveries(task_ids) if task_ids else {}

    def _reply(self, batch: _Batch, step: Step, deliveries: dict[str, Delivery]) -> None:
        for group, first in batch.groups:
            if not group.reply.done():
                group.reply.set_result(step.results[first : first + len(group.commands)])
        for answer in step.answers:
            call = self._calls.pop(answer.call)
            if not call.ended.done():
                call.ended.set_result(LeaseGrant(answer, deliveries))
        for number in batch.abandoned:
            abandoned = self._calls.pop(number, None)
            if abandoned is not None and not abandoned.ended.done():
                abandoned.ended.set_result(LeaseGrant(Answer(number, WorkerState.ACTIVE), {}))

    def _refuse_what_waits(self) -> None:
        """Refuse new work that came since the commit in flight began; all else keeps its place."""
        waiting, self._queue = self._queue, deque()
        for item in waiting:
            if isinstance(item, _Group) and item.grows:
                if not item.reply.done():
                    item.reply.set_exception(StorageBusyError())
            else:
                self._queue.append(item)

    def _refuse_when_closing(self) -> None:
        if self._closing or self.ended.done():
            raise ClosingError

    def _stopped(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            self.ended.set_result(None)
        else:
            log.critical("the broker cannot go on: memory may be ahead of the store", exc_info=error)
            self.ended.set_exception(error)


def _weight(command: Command) -> int:
    if isinstance(command, Enqueue):
        return len(command.tasks)
    if isinstance(command, Ack):
        return 1 + len(command.tasks)
    if isinstance(command, (Redrive, Purge)):
        return len(command.task_ids)
    return 1
