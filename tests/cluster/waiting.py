"""Polling with a deadline: the one way in which the harness waits for the world."""

import time
from collections.abc import Callable
from typing import TypeVar

from .errors import ClusterError

T = TypeVar("T")


def wait_for(
    what: str,
    check: Callable[[], T | None],
    *,
    seconds: float,
    every_seconds: float = 0.1,
    evidence: Callable[[], str] = str,
) -> T:
    """Call ``check`` until it returns something true and return that.

    Raises ClusterError with ``evidence()`` (a log's tail, say) once ``seconds`` have passed.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() >= deadline:
            shown = evidence()
            raise ClusterError(
                f"gave up after {seconds:.0f} s waiting for {what}" + (f"\n{shown}" if shown else "")
            )
        time.sleep(every_seconds)
