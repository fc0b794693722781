"""How the worker stands with its broker; read by the health server, written by whoever hears of it."""

import threading
import time
from collections.abc import Callable

from leadsman.logs import get_logger
from leadsman.wire.leases import WorkerState

_REPEAT_SECONDS = 60.0


class Standing:
    """Whether this worker may be given work. Safe to use from every thread."""

    def __init__(self, asked_to_drain: Callable[[], None] | None = None) -> None:
        """`asked_to_drain` is called, in whichever thread hears of it, when the broker wants this worker to end."""
        self._asked_to_drain = asked_to_drain
        self._log = get_logger("leadsman.worker")
        self._lock = threading.Lock()
        self._connected = False
        self._state = WorkerState.ACTIVE
        self._draining = False
        self._lost_contact_at: float | None = None
        self._said_at = 0.0

    @property
    def ready(self) -> bool:
        """Readiness: connected once, not fenced, not draining. Being busy, cordoned or cut off changes nothing."""
        may_work = self._state in {WorkerState.ACTIVE, WorkerState.CORDONED}
        return self._connected and not self._draining and may_work

    @property
    def why_not_ready(self) -> str:
        """One word for the health server's answer."""
        if self._draining:
            return "draining"
        return "connecting" if not self._connected else str(self._state)

    @property
    def barred(self) -> bool:
        """The broker gives this worker nothing until a fence or a cordon is lifted."""
        return self._state is not WorkerState.ACTIVE

    @property
    def draining(self) -> bool:
        """Whether it stopped taking work for good."""
        return self._draining

    def drain(self) -> None:
        """Take no more work, for good."""
        self._draining = True

    def heard(self, state: WorkerState) -> None:
        """Note a reply of the broker and what it wants of this worker."""
        with self._lock:
            first, self._connected = not self._connected, True
            changed, self._state = state is not self._state, state
            lost, self._lost_contact_at = self._lost_contact_at, None
        if first:
            self._log.info("connected to the broker")
        elif lost is not None:
            self._log.info("the broker answers again", away_seconds=round(time.monotonic() - lost, 1))
        if changed:
            self._log.info("the broker changed this worker's state", state=str(state))
            if state is WorkerState.DRAIN and self._asked_to_drain is not None:
                self._asked_to_drain()

    def failed(self, error: Exception) -> None:
        """Note a call that failed; said once, then once a minute."""
        now = time.monotonic()
        with self._lock:
            if self._lost_contact_at is None:
                self._lost_contact_at = now
                self._said_at = 0.0
            say = not self._said_at or now - self._said_at >= _REPEAT_SECONDS
            if say:
                self._said_at = now
        if say:
            self._log.warning("a call to the broker failed; trying again", error=str(error))
