"""Reads of the store from two threads: the writer's between commits, and the reader's at any time."""

import threading

from leadsman_broker.core.rows import Loaded, Needs
from leadsman_broker.store.interface import Delivery, Store, TaskRecord


class Reads:
    """One read at a time: a store's connection for reading is not for two threads at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()

    def read(self, needs: Needs) -> Loaded:
        """Return the rows that commands need."""
        with self._lock:
            return self._store.read(needs)

    def deliveries(self, task_ids: list[str], *, first: bool = False) -> dict[str, Delivery]:
        """Return what workers need of leased tasks. `first`: none was ever leased before."""
        with self._lock:
            return self._store.deliveries(task_ids, first=first)

    def task(self, namespace: str, task_id: str, now: float) -> TaskRecord | None:
        """Return one task."""
        with self._lock:
            return self._store.task(namespace, task_id, now)

    def payload(self, namespace: str, task_id: str) -> bytes | None:
        """Return the payload of a live or dead task."""
        with self._lock:
            return self._store.payload(namespace, task_id)
