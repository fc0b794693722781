"""How many slots the workers offer each queue: the S of the interactive reserve.

Counted are the workers that may be given work: heard of lately, not fenced, cordoned or draining. A worker's slots
count in full for every capability it serves.
"""

from typing import TYPE_CHECKING

from leadsman.wire.leases import WorkerState
from leadsman_broker.core.rows import QueueKey

if TYPE_CHECKING:
    from leadsman_broker.core.workers import WorkerRow


class Fleet:
    """Slots by queue, kept as workers come, change and go."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[QueueKey, int] = {}

    def slots(self, key: QueueKey) -> int:
        """Return the declared slots of the workers that serve a queue."""
        return self._slots.get(key, 0)

    def count(self, worker: "WorkerRow", *, gone: bool = False) -> list[QueueKey]:
        """Count a worker as it now is; return the queues whose slots have changed."""
        offers: tuple[tuple[str, ...], int] | None = None
        if not gone and not worker.silent and worker.state is WorkerState.ACTIVE:
            offers = (worker.capabilities, worker.slots)
        before = worker.offers
        if offers == before:
            return []
        worker.offers = offers
        namespace = worker.key[0]
        changes: dict[QueueKey, int] = {}
        for counted, sign in ((before, -1), (offers, 1)):
            if counted is not None:
                for capability in counted[0]:
                    key = (namespace, capability)
                    changes[key] = changes.get(key, 0) + sign * counted[1]
        for key, change in changes.items():
            slots = self._slots.get(key, 0) + change
            if slots:
                self._slots[key] = slots
            else:
                self._slots.pop(key, None)
        return [key for key, change in changes.items() if change]
