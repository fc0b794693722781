"""The stream of stats: a snapshot, then what changed, pushed at an edge and gathered otherwise.

An edge (first ready task, a worker turns idle or busy, a fence, a configuration) goes out at once. A burst may
use up a few pushes in quick succession, so that the fiftieth of fifty tasks is told as fast as the first.
Steady traffic is gathered to a few pushes a second, whatever its rate. A reader that does not keep up is
dropped; it comes back with its last event id, and gets what it missed or a new snapshot.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Literal

from leadsman.wire.stats import StatsSnapshot
from leadsman_broker.core.core import Changed, Core
from leadsman_broker.core.rows import QueueKey, WorkerKey, worker_id
from leadsman_broker.engine.clock import Clock

TICK_SECONDS = 5.0

_BURST = 6.0
_EDGES_PER_SECOND = 10.0
_GATHERED_SECONDS = 0.25
_SPACING_SECONDS = 0.02
_KEPT_EVENTS = 256
_KEPT_BYTES = 4 * 1024 * 1024
"""What is kept for those who resume."""
_BEHIND_EVENTS = 256
_BEHIND_BYTES = 8 * 1024 * 1024
"""How far a reader may be behind before it is dropped."""
_SLICE = 500
"""Workers looked at before the loop gets a turn."""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    id: str
    kind: Literal["snapshot", "delta", "tick"]
    data: bytes


class Subscription:
    """A reader's events, taken one by one."""

    def __init__(self) -> None:
        self.dropped = asyncio.Event()
        """Set when the reader did not keep up; nothing more comes then."""
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._ended = False
        self._wake = asyncio.Event()

    async def next(self) -> Event | None:
        """Wait for the next event; None when nothing more comes."""
        while not self._events:
            if self._ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        event = self._events.popleft()
        self._bytes -= len(event.data)
        return event

    def push(self, event: Event) -> bool:
        """Add an event; False when the reader is too far behind and is dropped."""
        if self._events and (self._bytes + len(event.data) > _BEHIND_BYTES or len(self._events) >= _BEHIND_EVENTS):
            self._events.clear()
            self.end()
            self.dropped.set()
            return False
        self._events.append(event)
        self._bytes += len(event.data)
        self._wake.set()
        return True

    def end(self) -> None:
        """Say that nothing more comes after what was pushed."""
        self._ended = True
        self._wake.set()


class Feed:
    """Turns the core's changes into events for any number of readers."""

    def __init__(self, core: Core, clock: Clock, epoch: str) -> None:
        self.epoch = epoch
        self.dropped = 0
        """Readers that did not keep up."""
        self._core = core
        self._clock = clock
        self._sequence = 0
        self._queues: set[QueueKey] = set()
        self._workers: set[WorkerKey] = set()
        self._fences = False
        self._readers: set[Subscription] = set()
        self._recent: deque[tuple[int, Event]] = deque()
        self._recent_bytes = 0
        self._credit = _BURST
        self._pushed_at = 0.0
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._closed = False
        self._ticker: asyncio.Task[None] | None = None

    @property
    def readers(self) -> int:
        """How many read now."""
        return len(self._readers)

    def start(self) -> None:
        """Begin to tick."""
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    async def close(self) -> None:
        """End every reader's stream."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        for reader in self._readers:
            reader.end()
        self._readers.clear()

    def snapshot(self, namespace: str | None = None) -> StatsSnapshot:
        """Sample everything, or the queues, workers and fenced workers of one namespace."""
        now = self._clock.now()
        core = self._core
        queues = (core.queue_stats(key, now) for key in core.queue_keys() if namespace in {None, key[0]})
        keys = [key for key in core.worker_keys() if namespace in {None, key[0]}]
        workers = (core.worker_stats(key, now) for key in keys)
        pods = {key[1] for key in keys}
        return StatsSnapshot(
            epoch=self.epoch,
            sequence=self._sequence,
            capabilities=[queue for queue in queues if queue is not None],
            workers=[worker for worker in workers if worker is not None],
            fences=[fence for fence in core.fence_stats(now) if namespace is None or fence.pod_uid in pods],
            cordons=[cordon for cordon in core.cordon_stats(now) if namespace is None or cordon.pod_uid in pods],
        )

    def subscribe(self, last_event_id: str | None = None) -> Subscription:
        """Start a stream: from after `last_event_id` if that is still kept, else with a snapshot."""
        self._flush()
        reader = Subscription()
        missed = self._missed(last_event_id)
        if missed is None:
            reader.push(Event(self._id(), "snapshot", _encode(self.snapshot())))
        else:
            for event in missed:
                reader.push(event)
        if self._closed:
            reader.end()
        else:
            self._readers.add(reader)
        return reader

    def unsubscribe(self, reader: Subscription) -> None:
        """Forget a reader."""
        self._readers.discard(reader)

    def note(self, changed: Changed) -> None:
        """Take in what a step changed, and push it when its time has come."""
        if not (changed.queues or changed.workers or changed.fences):
            return
        self._queues |= changed.queues
        self._workers |= changed.workers
        self._fences |= changed.fences
        if self._readers and not self._closed:
            self._schedule(urgent=changed.urgent)

    def _schedule(self, *, urgent: bool) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        since = now - self._pushed_at
        credit = min(_BURST, self._credit + since * _EDGES_PER_SECOND)
        if urgent or credit > 1:
            wait = _SPACING_SECONDS - since if credit >= 1 else (1 - credit) / _EDGES_PER_SECOND
        else:
            wait = _GATHERED_SECONDS - since
        due = now + max(0.0, wait)
        if self._timer is not None:
            # Kept beside it: for a time that has come uvloop gives a handle that does not know its own.
            if self._due <= due:
                return
            self._timer.cancel()
        # Never from within the step: the commit comes first, and the encoding runs while the disk works.
        self._due = due
        self._timer = loop.call_at(due, self._flush)

    def _flush(self) -> None:
        """Push what changed as one event."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not (self._queues or self._workers or self._fences):
            return
        now = asyncio.get_running_loop().time()
        self._credit = min(_BURST, self._credit + (now - self._pushed_at) * _EDGES_PER_SECOND) - 1
        self._pushed_at = now
        delta = self._delta()
        self._push("delta", delta)

    def _delta(self) -> StatsSnapshot:
        now = self._clock.now()
        core = self._core
        queues = [(key, core.queue_stats(key, now)) for key in self._queues]
        workers = [(key, core.worker_stats(key, now)) for key in self._workers]
        self._queues.clear()
        self._workers.clear()
        self._fences = False
        self._sequence += 1
        return StatsSnapshot(
            epoch=self.epoch,
            sequence=self._sequence,
            capabilities=[stats for _, stats in queues if stats is not None],
            workers=[stats for _, stats in workers if stats is not None],
            fences=core.fence_stats(now),
            cordons=core.cordon_stats(now),
            gone_capabilities=[key for key, stats in queues if stats is None],
            gone_workers=[worker_id(key) for key, stats in workers if stats is None],
        )

    def _push(self, kind: Literal["delta", "tick"], stats: StatsSnapshot) -> None:
        event = Event(self._id(), kind, _encode(stats))
        if kind == "delta":
            self._keep(event)
        for reader in list(self._readers):
            if not reader.push(event):
                self.dropped += 1
                self._readers.discard(reader)

    def _keep(self, event: Event) -> None:
        self._recent.append((self._sequence, event))
        self._recent_bytes += len(event.data)
        while len(self._recent) > _KEPT_EVENTS or self._recent_bytes > _KEPT_BYTES:
            self._recent_bytes -= len(self._recent.popleft()[1].data)

    def _missed(self, last_event_id: str | None) -> list[Event] | None:
        """Return the events after this id; None when they are not known any more."""
        epoch, _, number = (last_event_id or "").rpartition("-")
        if epoch != self.epoch or not number.isascii() or not number.isdigit() or len(number) > 18:
            return None
        seen = int(number)
        if seen > self._sequence:
            return None
        missed = [event for sequence, event in self._recent if sequence > seen]
        return missed if len(missed) == self._sequence - seen else None

    def _id(self) -> str:
        return f"{self.epoch}-{self._sequence}"

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if not self._readers:
                continue
            await self._note_heard()
            if self._queues or self._workers or self._fences:
                self._flush()
                continue
            now = self._clock.now()
            fences, cordons = self._core.fence_stats(now), self._core.cordon_stats(now)
            self._push(
                "tick",
                StatsSnapshot(epoch=self.epoch, sequence=self._sequence, fences=fences, cordons=cordons),
            )

    async def _note_heard(self) -> None:
        """Add the workers heard since the last tick: a heartbeat alone is no event, but readers count on it."""
        for number, key in enumerate(self._core.worker_keys(), start=1):
            stats = self._core.worker_stats(key, self._clock.now())
            if stats is not None and stats.last_heard_seconds <= TICK_SECONDS:
                self._workers.add(key)
            if number % _SLICE == 0:
                await asyncio.sleep(0)


def _encode(stats: StatsSnapshot) -> bytes:
    return stats.model_dump_json(by_alias=True, exclude_none=True).encode()
