"""Keeping the leases, in a thread that no handler can hold up.

One call renews every lease, about every third of the shortest one; it also carries checkpoints, at once, and is
sent without leases so that an idle worker stays known. The same thread watches the handlers' loop.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from leadsman.connection.backoff import Backoff, jittered
from leadsman.connection.blocking import BlockingConnection
from leadsman.connection.replies import parse
from leadsman.errors import InvalidRequestError, LeadsmanError
from leadsman.logs import get_logger
from leadsman.wire.costs import Usage
from leadsman.wire.leases import HeartbeatItem, HeartbeatReply, HeartbeatRequest, LeaseStatus
from leadsman.worker.holding import Held, Holding, StopReason, Unsaved
from leadsman.worker.loop_watch import LoopWatch
from leadsman.worker.metrics import WorkerMetrics
from leadsman.worker.settings import WorkerSettings
from leadsman.worker.standing import Standing

IDLE_HEARTBEAT_SECONDS = 10.0
"""Until a lease says otherwise: a third of the default lease."""
_DEFAULT_LEASE_SECONDS = 30.0
_WEDGED_LEASES: Final = 2.0
_MAX_TICK_SECONDS = 1.0
_MAX_TIMEOUT_SECONDS = 5.0
_MIN_TIMEOUT_SECONDS = 0.5
_MAX_CHECKPOINT_BATCH_BYTES = 4_000_000


class Heartbeats:
    """The heartbeat thread. `fatal` is called in it, once, when the worker must not go on."""

    def __init__(
        self,
        settings: WorkerSettings,
        holding: Holding,
        standing: Standing,
        watch: LoopWatch,
        fatal: Callable[[str], None],
        *,
        metrics: WorkerMetrics,
    ) -> None:
        self._settings = settings
        self._holding = holding
        self._standing = standing
        self._watch = watch
        self._fatal = fatal
        self._metrics = metrics
        self._log = get_logger("leadsman.worker")
        self._connection = BlockingConnection(settings.address)
        self._path = settings.address.path("leases", "heartbeat")
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._asked: list[Future[bool]] = []
        self._lease_seconds = _DEFAULT_LEASE_SECONDS
        self._heartbeat_seconds = IDLE_HEARTBEAT_SECONDS
        self._next_at = 0.0
        self._retry_at = 0.0
        self._one_by_one = False
        self._said_draining = False
        self._thread = threading.Thread(target=self._run, name="leadsman-heartbeats", daemon=True)

    def start(self) -> None:
        """Begin; the first heartbeat is sent at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, without waiting for an answer that is still out."""
        self._stopping.set()
        self._wake.set()

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def wake(self) -> None:
        """Send what is there to send now."""
        self._wake.set()

    def beat_soon(self) -> Future[bool]:
        """Send a heartbeat now that names every lease held now; tells whether it was answered."""
        asked: Future[bool] = Future()
        with self._lock:
            self._asked.append(asked)
        self._wake.set()
        return asked

    def expect(self, lease_seconds: float, heartbeat_seconds: float) -> None:
        """Note the pace of a lease that was just taken in."""
        with self._lock:
            self._lease_seconds = lease_seconds
            faster = heartbeat_seconds < self._heartbeat_seconds
            self._heartbeat_seconds = heartbeat_seconds
            if faster:
                self._next_at = min(self._next_at, time.monotonic() + heartbeat_seconds)
        if faster:
            self._wake.set()

    def _run(self) -> None:
        try:
            self._keep_beating()
        except Exception:  # noqa: BLE001  without this thread every lease would be lost unseen
            if self._stopping.is_set():
                return
            self._log.exception("the heartbeat thread failed")
            self._fatal("the heartbeat thread failed")
        finally:
            self._connection.close()

    def _keep_beating(self) -> None:
        backoff = Backoff(base_seconds=0.1)
        while not self._stopping.is_set():
            self._wake.wait(self._pause())
            self._wake.clear()
            lease_seconds, heartbeat_seconds = self._pace()
            limit_seconds = lease_seconds * _WEDGED_LEASES
            if self._watch.tick(heartbeat_seconds, limit_seconds):
                where = " <- ".join(reversed(self._watch.where()))
                self._fatal(f"the event loop was silent for more than {limit_seconds:g} s, at {where}")
                return
            now = time.monotonic()
            if now < self._retry_at or (now < self._next_at and not self._has_news()):
                continue
            backoff.max_seconds = max(0.2, min(_MAX_TIMEOUT_SECONDS, heartbeat_seconds / 2))
            if self._beat(heartbeat_seconds):
                backoff.reset()
                self._next_at = time.monotonic() + jittered(self._pace()[1])
                self._retry_at = 0.0
            else:
                self._retry_at = time.monotonic() + backoff.next()
                self._next_at = min(self._next_at, self._retry_at)

    def _pause(self) -> float:
        """Return how long nothing needs doing, in seconds, unless something wakes the thread."""
        now = time.monotonic()
        due = (self._retry_at if self._has_news() else max(self._retry_at, self._next_at)) - now
        return max(0.01, min(due, _MAX_TICK_SECONDS, self._pace()[0] / 8))

    def _pace(self) -> tuple[float, float]:
        """Return the shortest lease and heartbeat of what is held; what was last held, when nothing is."""
        ours = self._holding.ours()
        with self._lock:
            if ours:
                self._lease_seconds = min(held.lease.lease_seconds for held in ours)
                self._heartbeat_seconds = min(held.heartbeat_seconds for held in ours)
            return self._lease_seconds, self._heartbeat_seconds

    def _has_news(self) -> bool:
        if self._standing.draining and not self._said_draining:
            return True
        with self._lock:
            if self._asked:
                return True
        return any(held.unsaved is not None or held.unsure for held in self._holding.ours())

    def _beat(self, heartbeat_seconds: float) -> bool:
        """Send one heartbeat; return whether the broker answered it."""
        with self._lock:
            asked, self._asked = self._asked, []
        ours = self._holding.ours()
        carried = self._checkpoints(ours)
        spent = {held.token: usage for held in ours if (usage := held.unbooked) is not None}
        draining = self._standing.draining
        sent_at = time.monotonic()
        try:
            reply = self._send(ours, carried, spent, heartbeat_seconds, draining=draining)
        except InvalidRequestError as error:
            self._refused(carried, error)
            reply = None
        except LeadsmanError as error:
            self._standing.failed(error)
            reply = None
        self._metrics.heartbeat(answered=reply is not None)
        if reply is None:
            with self._lock:
                self._asked = asked + self._asked
            self._give_up_unreachable(ours)
            return False
        self._one_by_one = self._one_by_one and bool(carried)
        self._said_draining = draining
        self._standing.heard(reply.worker)
        for held in ours:
            if held.token in spent:
                held.booked(spent[held.token])
        self._heed(ours, carried, reply, sent_at)
        for waiter in asked:
            with contextlib.suppress(Exception):  # whoever asked may have gone
                waiter.set_result(True)
        return True

    def _send(
        self,
        ours: list[Held],
        carried: dict[str, Unsaved],
        spent: dict[str, Usage],
        heartbeat_seconds: float,
        *,
        draining: bool,
    ) -> HeartbeatReply:
        items = [_item(held, carried.get(held.token), spent.get(held.token)) for held in ours]
        request = HeartbeatRequest(
            worker=self._settings.identity,
            capabilities=list(self._settings.capabilities),
            slots=self._settings.slots,
            draining=draining,
            leases=items,
        )
        body = request.model_dump_json(by_alias=True, exclude_unset=True).encode()
        timeout = max(_MIN_TIMEOUT_SECONDS, min(_MAX_TIMEOUT_SECONDS, heartbeat_seconds / 2))
        return parse(
            HeartbeatReply, self._connection.post(self._path, body, timeout), url=self._settings.address.url
        )

    def _checkpoints(self, ours: list[Held]) -> dict[str, Unsaved]:
        """Choose the checkpoints that go with the next heartbeat; the rest follows with the one after."""
        chosen: dict[str, Unsaved] = {}
        size = 0
        for held in ours:
            unsaved = held.unsaved
            if unsaved is None or (chosen and (self._one_by_one or size > _MAX_CHECKPOINT_BATCH_BYTES)):
                continue
            chosen[held.token] = unsaved
            size += len(unsaved.encoded)
        return chosen

    def _refused(self, carried: dict[str, Unsaved], error: InvalidRequestError) -> None:
        """Find the checkpoint that the broker will not take: send them one by one and drop the one at fault."""
        if len(carried) == 1:
            by_token = {held.token: held for held in self._holding.all()}
            for token, unsaved in carried.items():
                if token in by_token:
                    by_token[token].refused(unsaved, error)
        elif not carried:
            self._log.error("the broker refuses this worker's heartbeat", error=str(error))
        self._one_by_one = True

    def _heed(self, ours: list[Held], carried: dict[str, Unsaved], reply: HeartbeatReply, sent_at: float) -> None:
        results = {result.token: result for result in reply.leases}
        for held in ours:
            result = results.get(held.token)
            status = None if result is None else result.status
            if status is LeaseStatus.LEASE_LOST:
                self._tell(held, StopReason.LEASE_LOST)
            if status is LeaseStatus.NO_PROGRESS:
                self._tell(held, StopReason.NO_PROGRESS)
            if result is None or status is LeaseStatus.LEASE_LOST:
                continue
            held.budget_told(result.remaining_budget)
            if status is not LeaseStatus.NO_PROGRESS:
                held.renewed(sent_at)
            if held.token in carried:
                held.saved(carried[held.token])
            if status is LeaseStatus.CANCELLED:
                self._tell(held, StopReason.CANCELLED)

    def _give_up_unreachable(self, ours: list[Held]) -> None:
        now = time.monotonic()
        for held in ours:
            if now - held.renewed_at > held.lease.unreachable_seconds:
                self._tell(held, StopReason.UNREACHABLE)

    def _tell(self, held: Held, reason: StopReason) -> None:
        if not held.settling and held.stop(reason):
            self._metrics.told_to_stop(reason)
            self._log.warning(
                "the handler is told to stop",
                reason=str(reason),
                task=held.facts.task_id,
                attempt=held.facts.attempt,
                capability=held.facts.capability,
            )


def _item(held: Held, carried: Unsaved | None, spent: Usage | None) -> HeartbeatItem:
    fields: dict[str, Any] = {} if carried is None else {"checkpoint": carried.state}
    if spent is not None:
        fields["usage"] = spent
    if held.progress_seq:
        fields["progress_seq"] = held.progress_seq
    return HeartbeatItem(token=held.token, **fields)
