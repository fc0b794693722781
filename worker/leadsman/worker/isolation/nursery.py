"""The process that isolated handlers are forked from: the application is loaded in it, and nothing runs in it."""

import os
import signal
import socket
import sys
from typing import NoReturn

from leadsman.app import App
from leadsman.errors import LeadsmanError
from leadsman.worker.isolation.keeper import keep

_FDS = 2


class NurseryGoneError(LeadsmanError):
    """The nursery was killed; this worker can run no isolated handler any more."""

    code = "nursery_gone"


class Nursery:
    """The worker's end. To be made before the process has threads: a fork copies only the one that forks."""

    def __init__(self, app: App) -> None:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            _serve(theirs, app)
        theirs.close()
        self._socket = ours

    def birth(self) -> tuple[socket.socket, socket.socket]:
        """Fork a keeper and a handler process; return the line to each. Raises NurseryGoneError."""
        control, keepers = socket.socketpair()
        talk, handlers = socket.socketpair()
        with keepers, handlers:
            try:
                socket.send_fds(self._socket, [b"f"], [keepers.fileno(), handlers.fileno()])
            except OSError as error:
                control.close()
                talk.close()
                raise NurseryGoneError("the process that isolated handlers are forked from is gone") from error
        return control, talk

    def close(self) -> None:
        """End the nursery; keepers end when the lines to them are closed."""
        self._socket.close()
        os.waitpid(self.pid, 0)


def _serve(line: socket.socket, app: App) -> NoReturn:
    """Fork a keeper for each pair of sockets that comes, until the worker is gone."""
    try:
        # They are meant for the worker, which decides what becomes of its handlers; Ctrl-C reaches the whole group.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects the keepers
        while True:
            data, fds, _, _ = socket.recv_fds(line, 1, _FDS)
            if not data:
                break
            if not os.fork():
                line.close()
                control, talk = (socket.socket(fileno=fd) for fd in fds)
                keep(control, talk, app)
            for fd in fds:
                os.close(fd)
    finally:
        os._exit(0)
