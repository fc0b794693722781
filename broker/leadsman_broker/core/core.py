"""The broker core: one state machine that every shell drives in the same way.

A shell gathers commands, asks `needs`, reads those rows from its store, calls `step`, commits the changes and only
then sends what `step` returned:

    commands = [*gathered, *core.chores(now)]
    loaded = store.read(core.needs(commands))
    step = core.step(commands, loaded, now, rand)
    store.commit(step.changes)            # if step.changes
    send(step.results, step.answers)      # payloads of grants: store.deliveries(ids), after the commit

`step` applies commands before it runs timers: a heartbeat that has arrived counts before the lease it renews is
found expired. Call it at the latest at `next_deadline()`, with no commands if there are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from leadsman.wire.stats import CapabilityStats, FenceStats, WorkerStats
from leadsman_broker.core.commands import Command
from leadsman_broker.core.randomness import Randomness
from leadsman_broker.core.results import Answer, Result
from leadsman_broker.core.rows import Changes, Loaded, NamespaceRow, Needs, QueueKey, Stored, TotalsRow, WorkerKey


@dataclass(frozen=True, slots=True)
class Step:
    """What one step brought. `results` match the commands; None for `Lease` and `Abandon`, see `answers`."""

    results: list[Result]
    answers: list[Answer]
    """Lease calls that ended in this step, whichever step they came in with."""
    changes: Changes


@dataclass(frozen=True, slots=True)
class Changed:
    """Whose stats changed since the last look. `urgent`: an edge was crossed, push now; else it can be gathered."""

    queues: frozenset[QueueKey]
    workers: frozenset[WorkerKey]
    """One that `worker_stats` no longer knows is gone; its id is `worker_id(key)`."""
    fences: bool
    urgent: bool


class Core:
    """The state of all live tasks, leases, workers and queues, and the only code that changes it."""

    def __init__(self, stored: Stored, now: float, rand: Randomness) -> None:
        """Build the state from a store's rows. Every lease found is extended: a start is a stall."""
        raise NotImplementedError

    def needs(self, commands: Sequence[Command]) -> Needs:
        """Say which rows of the store the commands must see."""
        raise NotImplementedError

    def step(self, commands: Sequence[Command], loaded: Loaded, now: float, rand: Randomness) -> Step:
        """Apply commands in order, run what is due, hand out ready tasks, and return all that came of it."""
        raise NotImplementedError

    def chores(self, now: float) -> list[Command]:
        """Return commands the core itself wants run now (retention), to be put behind the gathered ones."""
        raise NotImplementedError

    def next_deadline(self) -> float | None:
        """Return when `step` must be called at the latest; None: not before a command comes."""
        raise NotImplementedError

    def queue_keys(self) -> list[QueueKey]:
        """Return every queue, configured or retained."""
        raise NotImplementedError

    def queue_stats(self, key: QueueKey, now: float) -> CapabilityStats | None:
        """Return a queue at `now`, from memory; None when it is gone."""
        raise NotImplementedError

    def worker_keys(self) -> list[WorkerKey]:
        """Return every worker known."""
        raise NotImplementedError

    def worker_stats(self, key: WorkerKey, now: float) -> WorkerStats | None:
        """Return a worker at `now`, from memory; None when it is gone."""
        raise NotImplementedError

    def fence_stats(self, now: float) -> list[FenceStats]:
        """Return every fence in force."""
        raise NotImplementedError

    def totals(self, key: QueueKey) -> TotalsRow:
        """Return the counters of a queue, for metrics."""
        raise NotImplementedError

    def capabilities(self, namespace: str) -> NamespaceRow:
        """Return the configuration in force; generation 0 and empty when there never was one."""
        raise NotImplementedError

    def take_changed(self) -> Changed:
        """Return whose stats changed since the last call, and start anew."""
        raise NotImplementedError
