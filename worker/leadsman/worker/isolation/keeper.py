"""The parent of one handler process: it outlives the handler until what that left behind is killed."""

import contextlib
import os
import select
import signal
import socket
import time
from types import FrameType
from typing import NoReturn

from leadsman.app import App
from leadsman.worker.isolation.child import attempt
from leadsman.worker.isolation.linux import adopt_orphans, children

_TREE_SECONDS = 5.0
"""For killed processes to be gone; one in the kernel's uninterruptible sleep is not waited for any longer."""
_LOOK_SECONDS = 0.005


def keep(control: socket.socket, talk: socket.socket, app: App) -> NoReturn:
    """Fork the handler, tell its exit status on `control` once nothing of it is left, and end.

    A byte on `control`, or its end, is the order to kill: the worker that ends takes its handlers with it.
    """
    try:
        os.setsid()
        adopt_orphans()
        ears, mouth = os.pipe()
        os.set_blocking(mouth, False)
        signal.signal(signal.SIGCHLD, _hear)
        signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
        child = os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            os.close(ears)
            os.close(mouth)
            control.close()
            attempt(talk, app)
        talk.close()
        status = _watch(child, control, ears)
        with contextlib.suppress(OSError):
            control.sendall(str(status).encode())
    finally:
        os._exit(0)


def _watch(child: int, control: socket.socket, ears: int) -> int:
    """Return the handler's wait status, its whole tree being gone."""
    listened: list[int | socket.socket] = [control, ears]
    while True:
        readable, _, _ = select.select(listened, [], [])
        if control in readable:
            listened.remove(control)
            _kill_group(child)
        if ears in readable:
            os.read(ears, 4096)
        while (ended := _ended()) is not None:
            if ended == child:
                # Not collected yet, so that its number is still its own.
                _kill_group(child)
                _, status = os.waitpid(child, 0)
                _kill_tree()
                return status
            os.waitpid(ended, 0)


def _ended() -> int | None:
    """Return a child that has ended, uncollected, if there is one."""
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return None if found is None else found.si_pid


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def _kill_tree() -> None:
    """Kill what became an orphan of this process, and what becomes one by that, until nothing is left."""
    deadline = time.monotonic() + _TREE_SECONDS
    while time.monotonic() < deadline:
        for pid in children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            time.sleep(_LOOK_SECONDS)


def _hear(_number: int, _frame: FrameType | None) -> None:
    """Exist, so that the signal is written to the wake-up pipe."""
