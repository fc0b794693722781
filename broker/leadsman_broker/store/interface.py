"""What the broker asks of a store. `memory` and `sqlite` implement it; one conformance suite runs against each.

One thread at a time commits; reads may come from another thread while a commit runs and then see the state before
or after it, never between. All reads are bounded except `load`.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.rows import Changes, EndedRow, HistoryRow, LiveRow, Loaded, Needs, RunRow, Stored
from leadsman_broker.core.usage import Usage
from leadsman_broker.store.cost import CostLine, CostQuery
from leadsman_broker.store.dead import DeadGroup, DeadQuery


class Delivery(NamedTuple):
    """What a worker needs of a task beyond the grant. `payload`, `checkpoint` and `once` are JSON text."""

    name: str
    payload: bytes
    checkpoint: bytes | None
    traceparent: str | None
    once: bytes | None = None
    """One object with every value by its key; None when there is none."""


def once_object(values: Mapping[str, bytes]) -> bytes:
    """Return `once` values as one JSON object. Keys need no escapes: the wire allows none that would."""
    return b"{%b}" % b",".join(b'"%b":%b' % (key.encode(), value) for key, value in sorted(values.items()))


class TaskRecord(NamedTuple):
    """A task in full, but for its payload, as stored; live or terminal."""

    live: LiveRow
    name: str
    key: str | None
    traceparent: str | None
    ended: EndedRow | None
    reason: str | None
    error_type: str | None
    error_message: str | None
    result: bytes | None
    history: tuple[HistoryRow, ...]
    """Newest last."""
    usage: Usage | None = None
    """Of all its attempts; None when none has said anything, and in lists."""

    def state_at(self, now: float) -> TaskState:
        """Return where the task stands at `now`, the broker's clock."""
        if self.ended is not None:
            return self.ended.state
        if self.live.standing.lease_pod is not None:
            return TaskState.LEASED
        return TaskState.DELAYED if self.live.standing.due_at > now else TaskState.READY


class TaskQuery(NamedTuple):
    """Which tasks of a namespace to list, in order of acceptance; None: whatever."""

    namespace: str
    limit: int
    after: int = 0
    """Only those with a seq above it."""
    state: TaskState | None = None
    capability: str | None = None
    tenant: str | None = None
    run_id: str | None = None

    def matches(self, live: LiveRow) -> bool:
        """Say whether a task fits, but for its state and its place."""
        return (
            live.namespace == self.namespace
            and self.capability in {None, live.capability}
            and self.tenant in {None, live.tenant}
            and self.run_id in {None, live.run_id}
        )


class TaskPage(NamedTuple):
    """Tasks without their history, in order of acceptance."""

    records: list[TaskRecord]
    next_after: int | None
    """`after` of the next page; None: there is none. A page looks at a bounded number of tasks, so it may be short,
    or empty, and still have a next one."""


class RunQuery(NamedTuple):
    """Which runs of a namespace to list, the newest first."""

    namespace: str
    limit: int
    before: tuple[float, str] | None = None
    """Only those after this place, time of creation and id, in that order."""
    state: RunState | None = None


class Space(NamedTuple):
    """Room for growth. While `low`, new work is refused and settlements go on."""

    free_bytes: int | None
    """None: not bounded."""
    low: bool
    log_bytes: int = 0
    """What of the disk a log takes that is not yet part of the data; as of the last `tend`."""
    log_held_seconds: float = 0.0
    """How long another program has kept the log from being emptied; 0 when none does."""


class Store(Protocol):
    """Rows of accepted work, committed step by step."""

    @property
    def generation(self) -> int:
        """Grow by one at every opening of the same store."""
        ...

    def load(self) -> Stored:
        """Return everything a core starts from. `Stored.tasks` is consumed once, before the first commit."""
        ...

    def read(self, needs: Needs) -> Loaded:
        """Return the rows that commands need, in one go. What does not exist is absent from the answer."""
        ...

    def deliveries(self, task_ids: list[str], *, first: bool = False) -> dict[str, Delivery]:
        """Return payload and more of live tasks, by id. `first`: none was ever leased before."""
        ...

    def task(self, namespace: str, task_id: str, now: float) -> TaskRecord | None:
        """Return one task, or None when unknown in the namespace or no longer visible at `now`."""
        ...

    def dead(self, query: DeadQuery, now: float) -> TaskPage:
        """Return a page of a dead-letter queue. May run beside a commit and beside another read."""
        ...

    def dead_groups(self, query: DeadQuery, now: float) -> list[DeadGroup]:
        """Return all that fits, by reason and error, most frequent first; `after` and `limit` do not count."""
        ...

    def redriven_by(self, operation: str, after: int) -> int:
        """Count the tasks with a seq above `after` that a redrive of this name brought back last."""
        ...

    def tasks(self, query: TaskQuery, now: float) -> TaskPage:
        """Return a page of tasks. May run beside a commit and beside another read."""
        ...

    def run(self, namespace: str, run_id: str) -> RunRow | None:
        """Return one run, or None when it is not known. May run beside a commit and beside another read."""
        ...

    def runs(self, query: RunQuery) -> list[RunRow]:
        """Return a page of runs, the newest first. May run beside a commit and beside another read."""
        ...

    def cost(self, query: CostQuery) -> list[CostLine]:
        """Return sums of the ledger, the dearest item first. May run beside a commit and beside another read."""
        ...

    def payload(self, namespace: str, task_id: str) -> bytes | None:
        """Return the payload of a live or dead task; None when there is none any more."""
        ...

    def commit(self, changes: Changes) -> None:
        """Make one step durable, all or nothing.

        Raises StoreFencedError when a newer process owns the store, StoreFullError when there is no space,
        StoreError for anything else. After any of them nothing was applied and this object must not commit again.
        """
        ...

    def space(self) -> Space:
        """Say how much room there is. Cheap enough to ask before every batch of new work."""
        ...

    def tend(self) -> None:
        """Keep house. To be called every few seconds, on the thread that commits; waits for nobody."""
        ...

    def close(self) -> None:
        """Give up the store and its lock. Nothing may be called afterwards."""
        ...
