"""Drives a core the way a shell does: needs, read, step, commit, then the answers."""

import itertools
import random
from collections.abc import Sequence
from typing import Any

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.stats import CapabilityStats, WorkerStats
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core, Step
from leadsman_broker.core.results import Answer, Granted, HeartbeatOutcome, Onced, Settled
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.usage import Usage
from leadsman_broker.store.dead import DeadQuery
from leadsman_broker.store.interface import Store, TaskPage, TaskRecord
from leadsman_broker.store.memory import MemoryStore, MemoryTables

NAMESPACE = "agents"
CAPABILITY = "browser"


class Rig:
    """One broker's worth of state. Jitter is off unless a test turns it on."""

    def __init__(
        self,
        *capabilities: CapabilityConfig,
        settings: Settings | None = None,
        store: Store | None = None,
        seed: int = 1,
        goes_on_at: float | None = None,
    ) -> None:
        """`goes_on_at`: a start at that time on a store that was configured before."""
        self.now = 1_000_000.0 if goes_on_at is None else goes_on_at
        self.rand = random.Random(seed)
        self.settings = settings if settings is not None else Settings(reclaim_jitter=0.0, backoff_jitter=0.0)
        self.tables = MemoryTables()
        self.store: Store = store if store is not None else MemoryStore(self.tables)
        self.core = Core(self.store.load(), self.now, self.rand, self.settings)
        self.answers: dict[int, Answer] = {}
        self._calls = itertools.count(1)
        self._attempts = itertools.count(1)
        self.last: Step | None = None
        self.steps = 0
        self.commits = 0
        self.generation = 0
        if goes_on_at is None:
            self.configure(*(capabilities or (CapabilityConfig(name=CAPABILITY),)))

    def configure(self, *capabilities: CapabilityConfig, namespace: str = NAMESPACE) -> Any:
        self.generation += 1
        return self.do(c.Configure(namespace, self.generation, capabilities))

    def restart(self, seconds: float = 0.0) -> None:
        """Kill the broker and start it again from what was committed."""
        self.now += seconds
        if isinstance(self.store, MemoryStore):
            self.store = MemoryStore(self.tables)
        self.core = Core(self.store.load(), self.now, self.rand, self.settings)

    def run(self, commands: Sequence[c.Command] = ()) -> list[Any]:
        """Run one step at the present time and commit it."""
        given = len(commands)
        commands = [*commands, *self.core.chores(self.now)]
        loaded = self.store.read(self.core.needs(commands))
        step = self.core.step(commands, loaded, self.now, self.rand)
        self.steps += 1
        if step.changes:
            self.store.commit(step.changes)
            self.commits += 1
        self.last = step
        for answer in step.answers:
            assert answer.call not in self.answers, "a call is answered once"
            self.answers[answer.call] = answer
        return step.results[:given]

    def do(self, command: c.Command) -> Any:
        return self.run([command])[0]

    def wait(self, seconds: float) -> None:
        """Let time pass as a shell would: a step at every deadline on the way."""
        end = self.now + seconds
        while True:
            deadline = self.core.next_deadline()
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.run()
        self.now = end
        self.run()

    def freeze(self, seconds: float) -> None:
        """Let time pass while the broker stands still."""
        self.now += seconds

    def submit(self, count: int = 1, capability: str = CAPABILITY, **fields: Any) -> Any:
        """Enqueue equal tasks; one outcome for one, else a list."""
        namespace = fields.pop("namespace", NAMESPACE)
        outcomes = self.do(c.Enqueue(namespace, tuple(c.NewTask(capability, **fields) for _ in range(count))))
        return outcomes[0] if count == 1 else outcomes

    def who(self, name: str, incarnation: str = "1") -> c.Worker:
        return c.Worker(NAMESPACE, name, incarnation, pool="pool")

    def call(
        self,
        name: str = "w1",
        *capabilities: str,
        slots: int = 1,
        free: int | None = None,
        wait: float = 0.0,
        held: Sequence[str] = (),
        attempt: str | None = None,
        incarnation: str = "1",
        free_by: dict[str, int] | None = None,
    ) -> c.Lease:
        return c.Lease(
            call=next(self._calls),
            worker=self.who(name, incarnation),
            capabilities=capabilities or (CAPABILITY,),
            slots=slots,
            free_slots=free if free is not None else slots,
            attempt_id=attempt if attempt is not None else f"a{next(self._attempts)}",
            held=tuple(held),
            free_by_capability=free_by,
            wait_seconds=wait,
        )

    def lease(self, name: str = "w1", *capabilities: str, **options: Any) -> list[Granted]:
        """Make a lease call that does not wait, and return what it got."""
        command = self.call(name, *capabilities, **options)
        self.do(command)
        return list(self.answers[command.call].leases)

    def lease_one(self, name: str = "w1", *capabilities: str, **options: Any) -> Granted:
        (granted,) = self.lease(name, *capabilities, **options)
        return granted

    def park(self, name: str = "w1", *capabilities: str, **options: Any) -> int:
        """Make a lease call that waits; return its number."""
        command = self.call(name, *capabilities, **{"wait": 30.0, **options})
        self.do(command)
        return command.call

    def got(self, call: int) -> list[str] | None:
        """Ids of the tasks a call was answered with; None while it waits."""
        answer = self.answers.get(call)
        return None if answer is None else [lease.task_id for lease in answer.leases]

    def beat(
        self,
        name: str = "w1",
        *tokens: str,
        draining: bool = False,
        checkpoints: dict[str, bytes] | None = None,
        progress: dict[str, int] | None = None,
        usage: dict[str, Usage] | None = None,
        capabilities: Sequence[str] = (CAPABILITY,),
        slots: int = 1,
        incarnation: str = "1",
    ) -> HeartbeatOutcome:
        said: tuple[dict[str, Any], ...] = (checkpoints or {}, progress or {}, usage or {})
        beats = tuple(c.Beat(token, *(one.get(token) for one in said)) for token in tokens)
        who = self.who(name, incarnation)
        outcome = self.do(c.Heartbeat(who, tuple(capabilities), slots, draining=draining, leases=beats))
        assert isinstance(outcome, HeartbeatOutcome)
        return outcome

    def ack(self, granted: Granted, result: bytes | None = None) -> Settled:
        return self.do(c.Ack(NAMESPACE, granted.token, result))

    def nack(self, granted: Granted, **options: Any) -> Settled:
        return self.do(c.Nack(NAMESPACE, granted.token, options.pop("error_type", "Boom"), **options))

    def release(self, granted: Granted, **options: Any) -> Settled:
        return self.do(c.Release(NAMESPACE, granted.token, **options))

    def once(self, granted: Granted, key: str, value: bytes) -> Onced:
        return self.do(c.Once(NAMESPACE, granted.token, key, value))

    def row(self, task_id: str) -> TaskRow | None:
        """The live task in memory."""
        return next((row for row in self.core.state.tasks.values() if row.id == task_id), None)

    def record(self, task_id: str) -> TaskRecord | None:
        """The task in the store."""
        return self.store.task(NAMESPACE, task_id, self.now)

    def dead(self, capability: str = CAPABILITY, **chosen: Any) -> TaskPage:
        """A page of a dead-letter queue in the store."""
        return self.store.dead(DeadQuery(NAMESPACE, capability, **chosen), self.now)

    def events(self, task_id: str) -> list[str]:
        record = self.record(task_id)
        assert record is not None
        return [entry.event for entry in record.history]

    def stats(self, capability: str = CAPABILITY) -> CapabilityStats:
        found = self.core.queue_stats((NAMESPACE, capability), self.now)
        assert found is not None
        return found

    def worker(self, name: str = "w1", incarnation: str = "1") -> WorkerStats | None:
        return self.core.worker_stats((NAMESPACE, name, incarnation), self.now)
