"""The real broker core with rows in memory, on the virtual clock."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.runs import RunState
from leadsman.wire.stats import CapabilityStats
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core
from leadsman_broker.core.results import Answer, Fenced, HeartbeatOutcome
from leadsman_broker.core.rows import Loaded, RunKey, TotalsRow, WorkerKey
from leadsman_broker.core.settings import Settings
from leadsman_broker.store.memory import MemoryStore, MemoryTables
from leadsman_local.simulator.agenda import Agenda
from leadsman_operator.scaling import CapabilitySample, WorkerSample, capability_sample, worker_sample

NAMESPACE = "simulated"
FOR_EVER = 1e12
"""Seconds that a parked call may wait: a worker that waits asks again and again, which changes nothing."""

_LOST_LEASE_SECONDS = 1.0
"""How much later than it could be a lost lease may be found. Almost every end of a lease that is looked at has been
put off by a heartbeat; looking together with the next heartbeats saves a third of all steps."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker's call for tasks."""

    worker: c.Worker
    capabilities: tuple[str, ...]
    slots: int
    free: int
    held: tuple[str, ...] = ()
    free_by: Mapping[str, int] | None = None
    wait_seconds: float = FOR_EVER


@dataclass(slots=True)
class Edges:
    """What changed since the scaler looked last."""

    changed: bool = False
    urgent: bool = False
    workers: set[WorkerKey] = field(default_factory=set)


class VirtualBroker:
    """One broker without a network: a call is a step of the core."""

    def __init__(self, agenda: Agenda, settings: Settings, seed: str, changed: Callable[[bool], None]) -> None:
        self._agenda = agenda
        self._rand = Random(seed)  # noqa: S311 - chance, not secrets
        self._store = MemoryStore(MemoryTables())
        self.core = Core(self._store.load(), agenda.now, self._rand, settings)
        self._callers: dict[int, Callable[[Answer], None]] = {}
        self._calls = itertools.count(1)
        self._armed = float("inf")
        self._generation = 0
        self._changed = changed
        """Called with whether an edge was crossed, once until `edges` is taken."""
        self.edges = Edges()
        self.runs: dict[RunKey, RunState] = {}
        """How every run stands, those that the core has forgotten too."""

    @property
    def now(self) -> float:
        """The broker's clock."""
        return self._agenda.now

    def send(self, *commands: c.Command) -> list[Any]:
        """Apply commands in one step; return their results."""
        return self._step(commands)

    def beat(self, heartbeats: Sequence[c.Heartbeat]) -> list[HeartbeatOutcome]:
        """Renew leases; a heartbeat without usage needs nothing of the store."""
        return self._step(heartbeats, reads=False)

    def lease(
        self,
        ask: Ask,
        answered: Callable[[Answer], None],
        *before: c.Command,
    ) -> list[Any]:
        """Ask for tasks, after `before` in the same step; `answered` is called when the call ends."""
        call = next(self._calls)
        self._callers[call] = answered
        command = c.Lease(
            call,
            ask.worker,
            ask.capabilities,
            ask.slots,
            ask.free,
            attempt_id=f"a{call}",
            held=ask.held,
            free_by_capability=ask.free_by,
            wait_seconds=ask.wait_seconds,
        )
        return self._step((*before, command))

    def configure(self, capabilities: Sequence[CapabilityConfig]) -> None:
        """Put the rules into force."""
        self._generation += 1
        self._step((c.Configure(NAMESPACE, self._generation, tuple(capabilities)),))

    def fence(self, operation: str, pod_uids: tuple[str, ...], ttl_seconds: float) -> list[Fenced]:
        """Fence pods; each succeeds only while it holds no lease."""
        (results,) = self._step((c.Fence(operation, pod_uids, ttl_seconds),))
        return list(results)

    def unfence(self, operation: str, pod_uids: tuple[str, ...]) -> None:
        """Lift fences."""
        self._step((c.Unfence(pod_uids, operation),))

    def stats(self, capability: str) -> CapabilityStats:
        """Return a queue's numbers now."""
        found = self.core.queue_stats((NAMESPACE, capability), self.now)
        assert found is not None  # noqa: S101 - queues are configured at the start and stay
        return found

    def totals(self, capability: str) -> TotalsRow:
        """Return a queue's counters."""
        return self.core.totals((NAMESPACE, capability))

    def samples(self, capabilities: Sequence[str]) -> Mapping[str, CapabilitySample]:
        """Return the queues as a decision reads them."""
        return {name: capability_sample(self.stats(name)) for name in capabilities}

    def worker_sample(self, key: WorkerKey, lease_seconds: float) -> WorkerSample | None:
        """Return a worker as a decision reads it."""
        stats = self.core.worker_stats(key, self.now)
        return None if stats is None else worker_sample(stats, lease_seconds)

    def fences(self) -> dict[str, str]:
        """Return pod UID -> operation of every fence in force."""
        return {uid: row.operation for uid, row in self.core.state.fences.items()}

    def take_edges(self) -> Edges:
        """Return what changed since the last call."""
        taken, self.edges = self.edges, Edges()
        return taken

    def cordon(self, operation: str, pod_uids: tuple[str, ...], ttl_seconds: float) -> None:
        """Give pods nothing new."""
        self._step((c.Cordon(operation, pod_uids, ttl_seconds),))

    def uncordon(self, operation: str, pod_uids: tuple[str, ...]) -> None:
        """Lift cordons."""
        self._step((c.Uncordon(pod_uids, operation),))

    def cordons(self) -> dict[str, str]:
        """Return pod UID -> operation of every cordon in force."""
        return {uid: row.operation for uid, row in self.core.state.cordons.items()}

    def _step(self, commands: Sequence[c.Command], *, reads: bool = True) -> list[Any]:
        core, now = self.core, self.now
        given = len(commands)
        chores = core.chores(now)
        if chores or reads:
            commands = [*commands, *chores]
            loaded = self._store.read(core.needs(commands))
        else:
            loaded = Loaded()
        step = core.step(commands, loaded, now, self._rand)
        if step.changes:
            self._store.commit(step.changes)
            for key, run in step.changes.runs.items():
                self.runs[key] = run.state
        self._look_for_edges()
        for answer in step.answers:
            caller = self._callers.pop(answer.call, None)
            if caller is not None:
                caller(answer)
        self._arm()
        return step.results[:given]

    def _look_for_edges(self) -> None:
        state = self.core.state
        if not (state.changed_queues or state.changed_workers or state.fences_changed):
            return
        changed = self.core.take_changed()
        edges = self.edges
        edges.workers |= changed.workers
        if not edges.changed or (changed.urgent and not edges.urgent):
            edges.changed = True
            edges.urgent = edges.urgent or changed.urgent
            self._changed(edges.urgent)

    def _arm(self) -> None:
        """Have `_wake` called at the core's next deadline; an earlier appointment brings itself up to date."""
        deadline = self.core.next_deadline()
        if deadline is None:
            return
        state = self.core.state
        if state.lease_ends and state.lease_ends[0][0] == deadline:
            others = (state.expiries, state.run_ends, state.call_ends)
            times = [heap[0][0] for heap in others if heap]
            alarm = state.alarms.head()
            deadline = min(deadline + _LOST_LEASE_SECONDS, *times, math.inf if alarm is None else alarm)
        if deadline < self._armed:
            self._armed = deadline
            self._agenda.at(deadline, self._wake)

    def _wake(self) -> None:
        if self.now < self._armed:
            return  # an appointment that an earlier one has replaced
        self._armed = float("inf")
        self._step((), reads=False)
