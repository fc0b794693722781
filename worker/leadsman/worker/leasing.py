"""Asking for work: as many tasks as there are free slots, never more, one call at a time."""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any

from leadsman.connection.backoff import Backoff, jittered
from leadsman.connection.http import HttpConnection
from leadsman.connection.replies import parse
from leadsman.errors import LeadsmanError
from leadsman.wire.leases import LeaseReply, LeaseRequest
from leadsman.worker.heartbeats import Heartbeats
from leadsman.worker.holding import Held, Holding, Remember
from leadsman.worker.loop_watch import LoopWatch
from leadsman.worker.settings import WorkerSettings
from leadsman.worker.standing import Standing

PARK_SECONDS = 25.0
"""How long a call waits for work at the broker; below what proxies allow a silent connection."""
_ANSWER_SECONDS = 10.0
"""For the reply itself, beyond the parking."""
_BARRED_EVERY_SECONDS = 1.0
_LATE_SECONDS = 1.0
"""A reply read so late is confirmed first; the broker waits longer before it takes a lease for undelivered."""
_LAST_REPLY_SECONDS = 0.35
"""For a call that is out when the worker is told to go; twice this stays below a second."""


class Leasing:
    """Leases tasks and hands each to `run`, until it is told to stop."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        connection: HttpConnection,
        holding: Holding,
        standing: Standing,
        heartbeats: Heartbeats,
        watch: LoopWatch,
        run: Callable[[Held], None],
        remember: Remember,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._holding = holding
        self._standing = standing
        self._heartbeats = heartbeats
        self._watch = watch
        self._run = run
        self._remember = remember
        self._path = settings.address.path("leases")
        self._slot_freed = asyncio.Event()
        self._stop = asyncio.Event()
        self._attempt_id = ""

    def slot_freed(self) -> None:
        """Note that there may be room for another task."""
        self._slot_freed.set()

    def stop(self) -> None:
        """Lease nothing more."""
        self._stop.set()

    async def work(self) -> list[Held]:
        """Lease until stopped; return what came with the very last reply, to be given back."""
        backoff = Backoff()
        empty = Backoff(base_seconds=0.05, max_seconds=_BARRED_EVERY_SECONDS)
        while not self._stop.is_set():
            room = self._holding.free_by_capability()
            if self._holding.free <= 0 or not any(room.get(name, 1) for name in self._settings.capabilities):
                self._slot_freed.clear()
                await self._until_stop(self._slot_freed.wait())
                continue
            self._attempt_id = self._attempt_id or secrets.token_hex(8)
            started = time.monotonic()
            park = 0.0 if self._standing.barred else jittered(PARK_SECONDS)
            call = asyncio.ensure_future(self._call(park, room))
            await self._until_stop(self._until_answered(call, room))
            if self._stop.is_set():
                return await self._last_reply(call, started)
            if not call.done():
                # Asked again with the same attempt_id: what was given in this very moment comes with that reply.
                call.cancel()
                await asyncio.wait({call})
                continue
            try:
                reply = call.result()
            except LeadsmanError as error:
                # The reply may have been lost with leases in it: ask again with the same attempt_id.
                self._standing.failed(error)
                await self._until_stop(asyncio.sleep(backoff.next()))
                continue
            backoff.reset()
            taken = await self._confirmed(self._taken(reply, started), started)
            if self._stop.is_set():
                return taken
            for held in taken:
                self._run(held)
            if taken or time.monotonic() - started > park / 2 > 0:
                empty.reset()
            else:
                wait = jittered(_BARRED_EVERY_SECONDS) if self._standing.barred else empty.next()
                await self._until_stop(asyncio.sleep(wait))
        return []

    async def _until_answered(self, call: "asyncio.Future[LeaseReply]", room: dict[str, int]) -> None:
        """Wait for the reply, or until a capability that was full when the call was made has room again."""
        full = [name for name, free in room.items() if not free]
        while full and not call.done():
            self._slot_freed.clear()
            freed = asyncio.ensure_future(self._slot_freed.wait())
            either: set[asyncio.Future[Any]] = {call, freed}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                freed.cancel()
            now = self._holding.free_by_capability()
            if any(now[name] for name in full):
                return
        await asyncio.wait({call})

    async def _call(self, park_seconds: float, room: dict[str, int]) -> LeaseReply:
        request = LeaseRequest(
            worker=self._settings.identity,
            capabilities=list(self._settings.capabilities),
            slots=self._settings.slots,
            free_slots=max(1, self._holding.free),
            attempt_id=self._attempt_id,
            held=[held.token for held in self._holding.ours()],
            wait_seconds=park_seconds,
            **({"free_by_capability": room} if room else {}),
        )
        body = request.model_dump_json(exclude_unset=True).encode()
        timeout = park_seconds + _ANSWER_SECONDS
        reply = await self._connection.call("POST", self._path, body, timeout_seconds=timeout)
        return parse(LeaseReply, reply.body, url=self._settings.address.url)

    def _taken(self, reply: LeaseReply, asked_at: float) -> list[Held]:
        """Enter the reply's leases at once, so that the next heartbeat names them."""
        self._attempt_id = ""
        self._standing.heard(reply.worker)
        taken = []
        for lease in reply.leases:
            held = Held(lease, self._heartbeats.wake, self._remember, asked_at)
            if self._holding.add(held):
                self._heartbeats.expect(lease.lease_seconds, held.heartbeat_seconds)
                taken.append(held)
        return taken

    async def _confirmed(self, taken: list[Held], asked_at: float) -> list[Held]:
        """Return the leases that are still ours.

        A loop that was blocked reads a reply late; by then the broker may have given the tasks to someone else,
        because this worker's heartbeats did not name them. Then a heartbeat is awaited before anything starts.
        """
        if not taken:
            return []
        if self._watch.silent_since(asked_at) > _LATE_SECONDS:
            beat = asyncio.wrap_future(self._heartbeats.beat_soon())
            await self._until_stop(asyncio.wait({beat}))
        lost = [held for held in taken if held.lost]
        for held in lost:
            self._holding.remove(held)
        return [held for held in taken if not held.lost]

    async def _last_reply(self, call: "asyncio.Future[LeaseReply]", asked_at: float) -> list[Held]:
        """Take in what a call that is out still brings; nothing leased is lost when the worker goes.

        The heartbeat that says `draining` makes the broker end a parked call. If its reply does not come, one more
        call with the same attempt_id brings what it was given.
        """
        await asyncio.wait({call}, timeout=_LAST_REPLY_SECONDS)
        if not call.done():
            call.cancel()
            await asyncio.wait({call})
        if call.cancelled() or call.exception() is not None:
            call = asyncio.ensure_future(self._call(0.0, self._holding.free_by_capability()))
            await asyncio.wait({call}, timeout=_LAST_REPLY_SECONDS)
            if not call.done():
                call.cancel()
                await asyncio.wait({call})
        if call.cancelled() or call.exception() is not None:
            return []
        return self._taken(call.result(), asked_at)

    async def _until_stop(self, waiting: Coroutine[Any, Any, Any]) -> None:
        """Await something, but not beyond the order to stop."""
        stop = asyncio.ensure_future(self._stop.wait())
        other = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({stop, other}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            other.cancel()
            await asyncio.wait({stop, other})
