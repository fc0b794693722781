"""Events on our objects: what happened in the reason, why with numbers in the note.

Written in the background, so that a slow API server delays no decision. Each object has a budget of writes; beyond
it only the newest event of each reason waits, so that a pool that flaps can neither flood etcd nor hide what it did
last.
"""

import asyncio
import datetime as dt
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from leadsman.reasons import Reason
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.ending import EndingNamespaces
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.event_manifest import event_manifest
from leadsman_operator.kube.resources import Kind

_log = structlog.get_logger(__name__)

BURST = 25
"""Events that one object may have at once."""
REFILL_SECONDS = 12.0
"""One more event for an object after so long: 300 an hour at most."""
_FULL_SECONDS = BURST * REFILL_SECONDS
"""After so long without an event a budget is full again, as that of an object never heard of: it is dropped."""
MAX_WAITING = 2000
"""Events that may wait for the API server; beyond it the oldest are given up."""
_NOTE_BYTES = 1024
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class _Pending:
    """An event that waits to be written."""

    namespace: str
    regarding: dict[str, Any]
    reason: str
    note: str
    warning: bool
    action: str
    at: dt.datetime


@dataclass(slots=True)
class _Budget:
    tokens: float
    at: float


class EventRecorder:
    """Writes events; `instance` is this process's name. Run `run()` beside it."""

    def __init__(
        self,
        client: KubeClient,
        instance: str,
        *,
        ending: EndingNamespaces | None = None,
        dropped: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._ending = ending or EndingNamespaces(client)
        self._instance = instance[:128]
        self._dropped = dropped
        self._waiting: OrderedDict[tuple[str, str, int], _Pending] = OrderedDict()
        self._held: dict[str, dict[str, _Pending]] = {}
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        """The one used last comes last."""
        self._serial = 0
        self._wake = asyncio.Event()

    def record(
        self,
        obj: dict[str, Any],
        reason: EventReason | Reason,
        note: str,
        *,
        warning: bool = False,
        action: str = "Reconcile",
    ) -> None:
        """Queue an event about an object. Never waits and never fails."""
        meta = obj["metadata"]
        regarding = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        }
        now = dt.datetime.now(dt.UTC)
        pending = _Pending(meta["namespace"], regarding, reason.value, _cut(note), warning, action, now)
        _log.info("event", namespace=meta["namespace"], name=meta["name"], reason=reason.value, note=note)
        if self._allow(meta["uid"]):
            self._queue(meta["uid"], pending)
        else:
            replaced = self._held.setdefault(meta["uid"], {}).pop(reason.value, None)
            self._held[meta["uid"]][reason.value] = pending
            if replaced is not None:
                self._drop()
        self._wake.set()

    def forget(self, uid: str) -> None:
        """Drop the budget of an object that no longer exists; what waits is still written.

        A call that was under way when the object went may record one more; its budget goes when it is full.
        """
        self._budgets.pop(uid, None)
        for pending in self._held.pop(uid, {}).values():
            self._queue(uid, pending)
        self._wake.set()

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        while True:
            self._release_held()
            self._drop_full()
            if not self._waiting:
                self._wake.clear()
                try:
                    async with asyncio.timeout(self._nothing_before()):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                continue
            _, pending = self._waiting.popitem(last=False)
            await self._write(pending)

    def _queue(self, uid: str, pending: _Pending) -> None:
        self._serial += 1
        self._waiting[uid, pending.reason, self._serial] = pending
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
            self._drop()

    def _allow(self, uid: str) -> bool:
        now = asyncio.get_running_loop().time()
        budget = self._budgets.setdefault(uid, _Budget(BURST, now))
        self._budgets.move_to_end(uid)
        budget.tokens = min(BURST, budget.tokens + (now - budget.at) / REFILL_SECONDS)
        budget.at = now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    def _release_held(self) -> None:
        for uid in list(self._held):
            reasons = self._held[uid]
            while reasons and self._allow(uid):
                self._queue(uid, reasons.pop(next(iter(reasons))))
            if not reasons:
                del self._held[uid]

    def _drop_full(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._budgets and now - next(iter(self._budgets.values())).at >= _FULL_SECONDS:
            self._budgets.popitem(last=False)

    def _nothing_before(self) -> float | None:
        """In how many seconds there is something to do although nothing is recorded; None for never."""
        if self._held:
            return REFILL_SECONDS
        if not self._budgets:
            return None
        oldest = next(iter(self._budgets.values()))
        return max(0.0, oldest.at + _FULL_SECONDS - asyncio.get_running_loop().time()) + REFILL_SECONDS

    def _drop(self) -> None:
        if self._dropped is not None:
            self._dropped()

    async def _write(self, pending: _Pending) -> None:
        if self._ending.ends(pending.namespace):
            return
        body = event_manifest(
            pending.regarding,
            pending.reason,
            at=pending.at,
            action=pending.action,
            instance=self._instance,
            note=pending.note,
            warning=pending.warning,
        )
        for attempt in range(_ATTEMPTS):
            try:
                await self._client.create(Kind.EVENT, pending.namespace, body)
            except UnreachableError as error:
                _log.warning("event not written", reason=pending.reason, error=str(error))
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    # A namespace that is going away takes no events; nothing else can come of trying again.
                    if error.terminating:
                        self._ending.note(pending.namespace)
                    elif not error.not_found:
                        _log.warning("event refused", reason=pending.reason, error=str(error))
                    return
            else:
                return
            await asyncio.sleep(0.5 * 2**attempt)
        self._drop()


def _cut(note: str) -> str:
    raw = note.encode()
    return note if len(raw) <= _NOTE_BYTES else raw[: _NOTE_BYTES - 4].decode(errors="ignore") + "..."
