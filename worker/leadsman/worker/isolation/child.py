"""The handler process: one attempt, its context speaking through the worker."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn

from leadsman.app import App, Handler
from leadsman.budget import Left, less
from leadsman.context import Context, SyncContext, TaskFacts
from leadsman.errors import InvalidValueError
from leadsman.logs import bind_attempt, get_logger
from leadsman.outcomes import TaskCancelled
from leadsman.payloads import further_arguments
from leadsman.tracing import attempt_span, flush
from leadsman.wire.leases import MAX_FOLLOW_UPS
from leadsman.wire.tasks import TaskSubmit
from leadsman.worker.holding import StopReason
from leadsman.worker.isolation.frames import LENGTH, Frame, left_in, pack, unpack, verdict_frame
from leadsman.worker.isolation.linux import be_killed_first, die_with_parent, limit_memory
from leadsman.worker.verdicts import Verdict, raised, returned


def attempt(talk: socket.socket, app: App) -> NoReturn:
    """Run the attempt that the first frame tells of, say how it ended, and end the process."""
    try:
        die_with_parent()
        os.setsid()
        be_killed_first()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        line = _Line(talk)
        start = line.receive()
        if start is None:
            os._exit(0)
        facts = TaskFacts(**start["facts"])
        handler = app.handler(facts.capability, facts.name)
        assert handler is not None  # noqa: S101  the worker looked it up in the same application
        if handler.memory_mib is not None:
            limit_memory(handler.memory_mib)
        remote = _RemoteAttempt(line, left_in(start))
        verdict = _run(handler, facts, remote)
        flush()
        line.send(verdict_frame(verdict))
        _flush()
        os._exit(0)
    except BaseException:  # noqa: BLE001  whatever it is, this process ends here and the worker calls it a crash
        with contextlib.suppress(BaseException):
            get_logger("leadsman.worker").exception("an isolated attempt could not tell how it ended")
            _flush()
    finally:
        os._exit(1)


def _run(handler: Handler, facts: TaskFacts, remote: "_RemoteAttempt") -> Verdict:
    bind_attempt(facts)
    try:
        if handler.is_async:
            return returned(asyncio.run(_run_async(handler, facts, remote)))
        remote.listen()
        further = further_arguments(handler, facts.payload)
        with attempt_span(facts):
            return returned(handler.function(SyncContext(facts, remote, _logger), *further))
    except BaseException as error:  # noqa: BLE001  SystemExit included: it is judged as in the worker
        return raised(error, remote.reason)


async def _run_async(handler: Handler, facts: TaskFacts, remote: "_RemoteAttempt") -> Any:
    loop = asyncio.get_running_loop()
    further = further_arguments(handler, facts.payload)
    task = asyncio.ensure_future(_traced(handler, Context(facts, remote, _logger), facts, further))

    def stop() -> None:
        with contextlib.suppress(RuntimeError):  # a closed loop: the handler has ended
            loop.call_soon_threadsafe(task.cancel)

    remote.on_stop = stop
    remote.listen()
    return await task


async def _traced(handler: Handler, context: Context, facts: TaskFacts, further: tuple[Any, ...]) -> Any:
    with attempt_span(facts):
        return await handler.function(context, *further)


class _Line:
    """Frames over the socket; sending is safe from every thread, receiving belongs to one."""

    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        self._lock = threading.Lock()

    def send(self, frame: Frame) -> None:
        with self._lock:
            self._talk.sendall(pack(frame))

    def receive(self) -> Frame | None:
        head = self._exactly(LENGTH.size)
        body = None if head is None else self._exactly(LENGTH.unpack(head)[0])
        return None if body is None else unpack(body)

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            more = self._talk.recv(size - len(data))
            if not more:
                return None
            data += more
        return bytes(data)


class _RemoteAttempt:
    """The lease as seen from here: what is asked of it goes to the worker, which answers when it is done."""

    def __init__(self, line: _Line, left: Left | None) -> None:
        self._line = line
        self._used = (0, 0)
        self._told = (left, (0, 0))
        """What was left, and what of our usage was counted by then."""
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Any]] = {}
        self._followed = 0
        self.reason: StopReason | None = None
        self.on_stop: Callable[[], None] = lambda: None

    @property
    def cancelled(self) -> bool:
        return self.reason is not None

    def follow_up(self, task: TaskSubmit) -> None:
        self._followed += 1
        if self._followed > MAX_FOLLOW_UPS:
            raise InvalidValueError(
                f"a task has at most {MAX_FOLLOW_UPS} follow-ups; submit one that makes the rest"
            )
        self._line.send(
            {"op": "follow_up", "task": task.model_dump(mode="json", by_alias=True, exclude_unset=True)}
        )

    @property
    def left(self) -> Left | None:
        with self._lock:
            (left, counted), used = self._told, self._used
        return less(left, used[0] - counted[0], used[1] - counted[1])

    def use(self, tokens: int, cost_micros: int) -> None:
        with self._lock:
            self._used = (self._used[0] + tokens, self._used[1] + cost_micros)
        self._line.send({"op": "usage", "tokens": tokens, "cost_micros": cost_micros})

    def save(self, encoded: str) -> Future[None]:
        return self._ask({"op": "checkpoint", "state": encoded})

    def confirm(self) -> Future[None]:
        return self._ask({"op": "confirm"})

    def remember(self, key: str, encoded: str) -> Future[Any]:
        return self._ask({"op": "once", "key": key, "value": encoded})

    def progress(self) -> None:
        self._line.send({"op": "progress"})

    def _ask(self, frame: Frame) -> Future[Any]:
        asked: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._asked[number] = asked
        self._line.send(frame | {"id": number})
        return asked

    def listen(self) -> None:
        """Take in what the worker says, in a thread of its own."""
        threading.Thread(target=self._listen, name="leadsman-line", daemon=True).start()

    def _listen(self) -> None:
        while (frame := self._line.receive()) is not None:
            match frame["op"]:
                case "stop":
                    self.reason = StopReason(frame["reason"])
                    self.on_stop()
                case "answer":
                    self._answered(frame)
                case "budget":
                    with self._lock:
                        self._told = (left_in(frame), (frame["counted"][0], frame["counted"][1]))

    def _answered(self, frame: Frame) -> None:
        with self._lock:
            asked = self._asked.pop(frame["id"])
        if not asked.set_running_or_notify_cancel():
            return
        match frame.get("error"):
            case None:
                asked.set_result(frame["value"])
            case {"cancelled": message}:
                asked.set_exception(TaskCancelled(message))
            case {"invalid": message}:
                asked.set_exception(InvalidValueError(message))


def _logger() -> Any:
    return get_logger("leadsman.task")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
