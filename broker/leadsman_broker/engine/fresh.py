"""What workers need of tasks that were accepted a moment ago, so that it is not read back from the store."""

from collections import OrderedDict

from leadsman_broker.core.rows import Changes
from leadsman_broker.store.interface import Delivery


class FreshDeliveries:
    """Deliveries of the newest tasks, up to `capacity_bytes` of payload; the oldest are dropped first.

    Most tasks are leased soon after they were accepted. An entry follows the task's checkpoints, and goes with it
    or with its first `once`: it is always what the store would answer after the same commit.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._bytes = 0
        self._ids: OrderedDict[int, str] = OrderedDict()
        """seq -> id, in order of acceptance. A plain dict looks for its first entry among all that were removed."""
        self._deliveries: dict[str, Delivery] = {}

    def follow(self, changes: Changes) -> None:
        """Take in a step, in the order in which a store applies it."""
        for row in changes.accepted:
            self._put(row.live.seq, row.live.id, Delivery(row.name, row.payload, None, row.traceparent))
        if not self._ids:
            return
        for seq, checkpoint in changes.checkpoints.items():
            task_id = self._ids.get(seq)
            if task_id is not None:
                self._deliveries[task_id] = self._deliveries[task_id]._replace(checkpoint=checkpoint)
        for one in changes.once:
            self._drop(one.seq)
        for ending in changes.ended:
            self._drop(ending.ended.live.seq)

    def take(self, task_ids: list[str]) -> tuple[dict[str, Delivery], list[str]]:
        """Return what is known of these tasks, and the ids of those that must be read."""
        found: dict[str, Delivery] = {}
        unknown: list[str] = []
        for task_id in task_ids:
            delivery = self._deliveries.get(task_id)
            if delivery is None:
                unknown.append(task_id)
            else:
                found[task_id] = delivery
        return found, unknown

    def _put(self, seq: int, task_id: str, delivery: Delivery) -> None:
        size = len(delivery.payload)
        if size > self._capacity:
            return
        self._ids[seq] = task_id
        self._deliveries[task_id] = delivery
        self._bytes += size
        while self._bytes > self._capacity:
            self._drop(next(iter(self._ids)))

    def _drop(self, seq: int) -> None:
        task_id = self._ids.pop(seq, None)
        if task_id is not None:
            self._bytes -= len(self._deliveries.pop(task_id).payload)
