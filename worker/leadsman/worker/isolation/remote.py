"""The worker's side of an isolated attempt: it answers the handler's calls, and kills what does not end."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from leadsman.app import Handler
from leadsman.logs import get_logger
from leadsman.outcomes import TaskCancelled
from leadsman.wire.tasks import TaskSubmit
from leadsman.worker.holding import Held, StopReason
from leadsman.worker.isolation.frames import LENGTH, Frame, pack, start_frame, unpack, verdict_of
from leadsman.worker.isolation.nursery import Nursery, NurseryGoneError
from leadsman.worker.verdicts import GivenBack, Verdict, crashed, timed_out

KILL_SECONDS = 3.0
"""For a handler that was told to stop, to save its state and end by itself. A lost lease allows no time at all."""


class Isolated:
    """Runs isolated handlers, each in a child of the nursery. `gone` is called when no further one can run."""

    def __init__(self, nursery: Nursery, loop: asyncio.AbstractEventLoop, gone: Callable[[], None]) -> None:
        self._nursery = nursery
        self._loop = loop
        self._gone = gone

    async def run(self, handler: Handler, held: Held) -> Verdict:
        """Run the task's handler in a process; returns when nothing of that process is left. Raises nothing."""
        try:
            control, talk = self._nursery.birth()
        except NurseryGoneError as error:
            get_logger("leadsman.worker").error("no isolated handler can run", error=str(error))
            self._gone()
            return GivenBack(str(error))
        attempt = _Attempt(self._loop, held, control, talk)
        try:
            return await attempt.run(handler.timeout_seconds)
        finally:
            control.close()
            talk.close()


class _Attempt:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, held: Held, control: socket.socket, talk: socket.socket
    ) -> None:
        self._loop = loop
        self._held = held
        self._control = control
        self._talk = talk
        for each in (control, talk):
            each.setblocking(False)
        self._unsent: asyncio.Queue[Frame] = asyncio.Queue()
        self._verdict: Verdict | None = None
        self._timed_out = False

    async def run(self, timeout_seconds: float | None) -> Verdict:
        timer = None
        if timeout_seconds is not None:
            timer = self._loop.call_later(timeout_seconds, self._time_is_up)
        self._unsent.put_nowait(start_frame(self._held.facts, self._held.left))
        self._held.on_budget(lambda: self._from_any_thread(self._pass_budget_on))
        self._held.on_stop(lambda: self._from_any_thread(self._told))
        writing = asyncio.ensure_future(self._write())
        reading = asyncio.ensure_future(self._read())
        try:
            status = await self._status()
            await reading
        finally:
            writing.cancel()
            if timer is not None:
                timer.cancel()
        if self._verdict is not None:
            return self._verdict
        if self._timed_out and self._held.reason is None and timeout_seconds is not None:
            return timed_out(timeout_seconds)
        return crashed(status, self._held.reason)

    async def _status(self) -> int | None:
        """Return the handler's wait status; None when its keeper ended without a word."""
        said = b""
        with contextlib.suppress(ConnectionError):
            while more := await self._loop.sock_recv(self._control, 64):
                said += more
        return int(said) if said else None

    async def _read(self) -> None:
        # A broken frame ends the talk: the process has no verdict then, and is a crash.
        with contextlib.suppress(OSError, ValueError, KeyError, EOFError):
            while True:
                length = LENGTH.unpack(await self._exactly(LENGTH.size))[0]
                self._heed(unpack(await self._exactly(length)))

    async def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = await self._loop.sock_recv(self._talk, size - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)

    async def _write(self) -> None:
        with contextlib.suppress(OSError):  # the process is gone; its end is told by the keeper
            while True:
                await self._loop.sock_sendall(self._talk, pack(await self._unsent.get()))

    def _heed(self, frame: Frame) -> None:
        match frame["op"]:
            case "checkpoint":
                saved = self._held.save(frame["state"])
                saved.add_done_callback(lambda done: self._from_any_thread(self._answer, frame["id"], done))
            case "confirm":
                sure = self._held.confirm()
                sure.add_done_callback(lambda done: self._from_any_thread(self._answer, frame["id"], done))
            case "once":
                told = self._held.remember(frame["key"], frame["value"])
                told.add_done_callback(lambda done: self._from_any_thread(self._answer, frame["id"], done))
            case "follow_up":
                self._held.follow_up(TaskSubmit.model_validate(frame["task"]))
            case "progress":
                self._held.progress()
            case "usage":
                self._held.use(frame["tokens"], frame["cost_micros"])
            case "ended":
                self._verdict = verdict_of(frame)

    def _answer(self, number: int, done: "Future[Any]") -> None:
        error = done.exception()
        answer: Frame = {"op": "answer", "id": number, "value": None if error else done.result()}
        if isinstance(error, TaskCancelled):
            answer["error"] = {"cancelled": str(error)}
        elif error is not None:
            answer["error"] = {"invalid": str(error)}
        self._unsent.put_nowait(answer)

    def _told(self) -> None:
        """Pass the order to stop on, and see that it is followed."""
        reason = self._held.reason
        if reason is None or reason is StopReason.LEASE_LOST:
            self._kill()
            return
        self._unsent.put_nowait({"op": "stop", "reason": str(reason)})
        self._loop.call_later(KILL_SECONDS, self._kill)

    def _pass_budget_on(self) -> None:
        left, counted = self._held.told_budget
        self._unsent.put_nowait({"op": "budget", "left": left, "counted": counted})

    def _time_is_up(self) -> None:
        self._timed_out = True
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            self._control.send(b"k")

    def _from_any_thread(self, callback: Callable[..., Any], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # a closed loop: the worker has ended
            self._loop.call_soon_threadsafe(callback, *arguments)
