"""The broker core: one state machine that every shell drives in the same way.

A shell gathers commands, asks `needs`, reads those rows from its store, calls `step`, commits the changes and only
then sends what `step` returned:

    commands = [*gathered, *core.chores(now)]
    loaded = store.read(core.needs(commands))
    step = core.step(commands, loaded, now, rand)
    store.commit(step.changes)            # if step.changes
    send(step.results, step.answers)      # payloads of grants: store.deliveries(ids), after the commit

`step` applies commands before it runs timers: a heartbeat that has arrived counts before the lease it renews is
found expired. Call it at the latest at `next_deadline()`, with no commands if there are none. The rows for a step
are read after the commit of the one before.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leadsman.wire.capabilities import TenantFrom
from leadsman.wire.stats import CapabilityStats, CordonStats, FenceStats, WorkerStats
from leadsman_broker.core import budgets, openings, stats, timers
from leadsman_broker.core import commands as c
from leadsman_broker.core.accounts import Budget
from leadsman_broker.core.admission import enqueue
from leadsman_broker.core.asking import abandon, lease
from leadsman_broker.core.cancelling import cancel
from leadsman_broker.core.configuration import configure
from leadsman_broker.core.cordoning import cordon, uncordon
from leadsman_broker.core.dead_letters import purge, redrive
from leadsman_broker.core.dispatch import dispatch
from leadsman_broker.core.explaining import Standing, explain
from leadsman_broker.core.fencing import fence, unfence
from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.leases import STALL_SHARE, extend_after_stall
from leadsman_broker.core.needing import add_needs
from leadsman_broker.core.outbox import Outbox
from leadsman_broker.core.pausing import pause, resume
from leadsman_broker.core.randomness import Randomness
from leadsman_broker.core.remembering import once
from leadsman_broker.core.renewals import heartbeat
from leadsman_broker.core.restoring import restore
from leadsman_broker.core.results import Answer, Result, Swept
from leadsman_broker.core.retention import sweep
from leadsman_broker.core.rows import Changes, Loaded, NamespaceRow, Needs, QueueKey, Stored, TotalsRow, WorkerKey
from leadsman_broker.core.runs import cancel_run, forget_ended, put_run
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.settlements import ack, nack, release
from leadsman_broker.core.state import State
from leadsman_broker.core.waiting import end_expired

Apply = Callable[[State, Any], Result]

RULES: dict[type, Apply] = {
    c.Enqueue: enqueue,
    c.Lease: lease,
    c.Abandon: abandon,
    c.Heartbeat: heartbeat,
    c.Ack: ack,
    c.Nack: nack,
    c.Release: release,
    c.Once: once,
    c.Cancel: cancel,
    c.PutRun: put_run,
    c.CancelRun: cancel_run,
    c.Redrive: redrive,
    c.Purge: purge,
    c.Pause: pause,
    c.Resume: resume,
    c.Fence: fence,
    c.Unfence: unfence,
    c.Cordon: cordon,
    c.Uncordon: uncordon,
    c.Configure: configure,
    c.Sweep: sweep,
}


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
    """One that `queue_stats` no longer knows is gone."""
    workers: frozenset[WorkerKey]
    """One that `worker_stats` no longer knows is gone; its id is `worker_id(key)`."""
    fences: bool
    """Or cordons."""
    urgent: bool


class Core:
    """The state of all live tasks, leases, workers and queues, and the only code that changes it."""

    def __init__(self, stored: Stored, now: float, rand: Randomness, settings: Settings | None = None) -> None:
        """Build the state from a store's rows. Every lease found is extended: a start is a stall."""
        self.state = State(settings if settings is not None else Settings(), now, rand)
        self.state.gates = (*self.state.gates, budgets.gate)
        restore(self.state, stored)
        self._sweep_at = now
        self._shortest_lease = self._find_shortest_lease()

    def needs(self, commands: Sequence[c.Command]) -> Needs:
        """Say which rows of the store the commands must see."""
        needs = Needs()
        for command in commands:
            add_needs(self.state, command, needs)
        return needs

    def step(self, commands: Sequence[c.Command], loaded: Loaded, now: float, rand: Randomness) -> Step:
        """Apply commands in order, run what is due, hand out ready tasks, and return all that came of it.

        A `now` before that of the last step counts as that one: the broker's time never goes back.
        """
        state = self.state
        gap = now - state.now
        state.now = max(now, state.now)
        state.rand = rand
        state.loaded = loaded
        if gap > self._shortest_lease * STALL_SHARE:
            extend_after_stall(state, gap)

        results: list[Result] = []
        for command in commands:
            kind = type(command)
            result = RULES[kind](state, command)
            results.append(result)
            if kind is c.Configure:
                self._shortest_lease = self._find_shortest_lease()
            elif isinstance(result, Swept):
                self._sweep_at = state.now if result.more else state.now + state.settings.sweep_seconds
        timers.run(state)
        dispatch(state)
        if state.opened:
            openings.keep(state)
        if state.out.openings:
            openings.follow(state)
        end_expired(state)

        changes = state.out.changes(state.now, state.next_seq)
        forget_ended(state)
        state.out = Outbox()
        answers = state.answers
        state.answers = []
        return Step(results, answers, changes)

    def chores(self, now: float) -> list[c.Command]:
        """Return commands the core itself wants run now (retention), to be put behind the gathered ones."""
        return [c.Sweep(before=now)] if now >= self._sweep_at else []

    def next_deadline(self) -> float | None:
        """Return when `step` must be called at the latest; None: not before a command comes.

        While leases are out that is at least eight times per shortest lease, so that only a stall looks like one.
        """
        state = self.state
        times = [self._sweep_at]
        if state.lease_ends:
            times.append(state.lease_ends[0][0])
            times.append(state.now + self._shortest_lease / 8)
        if state.expiries:
            times.append(state.expiries[0][0])
        if state.run_ends:
            times.append(state.run_ends[0][0])
        if state.stopping or state.hot:
            times.append(state.now)
        if state.call_ends:
            times.append(state.call_ends[0][0])
        alarm = state.alarms.head()
        if alarm is not None:
            times.append(alarm)
        return min(times)

    def queue_keys(self) -> list[QueueKey]:
        """Return every queue, configured or retained."""
        return [*self.state.queues]

    def queue_stats(self, key: QueueKey, now: float) -> CapabilityStats | None:
        """Return a queue at `now`, from memory; None when it is gone."""
        queue = self.state.queues.get(key)
        return stats.queue_stats(self.state, queue, now) if queue is not None else None

    def worker_keys(self) -> list[WorkerKey]:
        """Return every worker known."""
        return [*self.state.workers]

    def worker_stats(self, key: WorkerKey, now: float) -> WorkerStats | None:
        """Return a worker at `now`, from memory; None when it is gone."""
        worker = self.state.workers.get(key)
        return stats.worker_stats(self.state, worker, now) if worker is not None else None

    def fence_stats(self, now: float) -> list[FenceStats]:
        """Return every fence in force."""
        return stats.fence_stats(self.state, now)

    def cordon_stats(self, now: float) -> list[CordonStats]:
        """Return every cordon in force."""
        return stats.cordon_stats(self.state, now)

    def totals(self, key: QueueKey) -> TotalsRow:
        """Return the counters of a queue, for metrics; zeros when it is gone."""
        queue = self.state.queues.get(key)
        return queue.totals.row() if queue is not None else TotalsRow()

    def endings(self, key: QueueKey) -> dict[str, int]:
        """Count the tasks of a queue that ended without completing since the process started, by reason."""
        queue = self.state.queues.get(key)
        return dict(queue.endings) if queue is not None else {}

    def refusals(self, key: QueueKey) -> dict[str, int]:
        """Count the tasks that a queue refused since the process started, by code."""
        queue = self.state.queues.get(key)
        return dict(queue.refusals) if queue is not None else {}

    def explain(self, task_id: str, now: float) -> Standing | None:
        """Return what holds a live task back; None when it is not live."""
        row = self.state.tasks.get(seq_of(task_id) or 0)
        return explain(self.state, row, now) if row is not None and row.id == task_id else None

    def identifies_tenants(self, namespace: str, capability: str) -> bool:
        """Say whether a queue takes the tenant of a task from who submits it, whatever the task claims."""
        queue = self.state.queues.get((namespace, capability))
        return queue is not None and queue.rules.tenant_from is TenantFrom.IDENTITY

    def budget(self, key: QueueKey) -> Budget | None:
        """Return the accounts of a queue's budget, to be read only; None when it has none."""
        queue = self.state.queues.get(key)
        return queue.budget if queue is not None else None

    def run_counts(self) -> dict[tuple[str, str], int]:
        """Count the runs in memory by namespace and state."""
        return dict(Counter((run.key[0], run.state.value) for run in self.state.runs.values()))

    def capabilities(self, namespace: str) -> NamespaceRow:
        """Return the configuration in force; generation 0 and empty when there never was one."""
        return self.state.namespaces.get(namespace, NamespaceRow(namespace, 0))

    def take_changed(self) -> Changed:
        """Return whose stats changed since the last call, and start anew."""
        state = self.state
        changed = Changed(
            frozenset(state.changed_queues), frozenset(state.changed_workers), state.fences_changed, state.urgent
        )
        state.changed_queues.clear()
        state.changed_workers.clear()
        state.fences_changed = state.urgent = False
        return changed

    def _find_shortest_lease(self) -> float:
        return min((queue.rules.lease_seconds for queue in self.state.queues.values()), default=float("inf"))
