"""Being process 1 of a container.

The kernel gives process 1 no default signal handlers and every orphan of the container. A worker that is process 1
would ignore a SIGTERM that comes while it still imports, and collect the zombies of whatever its handlers started.
So it forks at once: the parent only forwards signals and collects, the child is an ordinary process.
"""

import os
import signal
from types import FrameType

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)


def split_when_first() -> None:
    """In process 1, fork and return only in the child; elsewhere do nothing. To be called before any thread."""
    if os.getpid() != 1:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if child:
        _watch_over(child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _watch_over(child: int) -> None:
    """Forward signals to the child, collect every orphan, and end as the child ends."""

    def forward(number: int, _frame: FrameType | None) -> None:
        try:
            os.kill(child, number)
        except ProcessLookupError:
            return  # it ended in this moment; the loop below learns how

    for number in _FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
