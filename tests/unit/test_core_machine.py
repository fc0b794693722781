"""Any order of anything: the core under random commands, time, stalls and restarts, checked after every step."""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from core_rig import CAPABILITY, NAMESPACE, Rig, check, heads_of, picture
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman.wire.workers import FenceOutcome
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core
from leadsman_broker.core.results import Accepted
from leadsman_broker.core.rows import AttemptOutcome, Caps
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.usage import Usage

QUEUES = (CAPABILITY, "llm")
WORKERS = ("w1", "w2", "w3", "w4")
SLOTS = {"w1": 1, "w2": 3, "w3": 3, "w4": 8}
RULES = {
    CAPABILITY: {"max_attempts": 4, "max_reclaims": 2, "max_depth": 12},
    "llm": {"lease_seconds": 4, "attempt_timeout_seconds": 15, "backoff_seconds": 0, "max_attempts": 50},
}
workers = st.sampled_from(WORKERS)
usages = st.none() | st.builds(Usage, st.integers(0, 3), st.integers(0, 3))
capabilities = st.sampled_from([(CAPABILITY,), ("llm",), QUEUES])


class CoreMachine(RuleBasedStateMachine):
    """Rules say what callers and time may do; the invariants say what must hold whatever they did."""

    accepted = Bundle("accepted")
    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        rules = [
            CapabilityConfig(
                name=name,
                lowest_band_every=0,
                completed_retention_seconds=1e7,
                dead_retention_seconds=1e7,
                **fields,
            )
            for name, fields in RULES.items()
        ]
        self.rig = Rig(*rules, settings=Settings(suspect_patience_seconds=20.0, delivery_grace_seconds=1.0))
        self.rules_in_force = rules
        self.owed: set[str] = set()
        self.completed: set[str] = set()
        self.newest: dict[str, str] = {}
        self.settled: dict[str, str] = {}
        self.reported: dict[tuple[str, int], Usage] = {}
        self.seen_answers = 0

    def run(self, *commands: c.Command) -> list:
        results = self.rig.run(commands)
        for result in results:
            for outcome in result if isinstance(result, list) else ():
                if isinstance(outcome, Accepted) and not outcome.duplicate:
                    self.owed.add(outcome.id)
        self._look_at_answers()
        return results

    def _look_at_answers(self) -> None:
        """Nothing completed is delivered again, no token comes twice, and a tenant's best ready task goes first."""
        granted = [
            lease
            for number, answer in enumerate(self.rig.answers.values())
            if number >= self.seen_answers
            for lease in answer.leases
        ]
        self.seen_answers = len(self.rig.answers)
        worst: dict[str, int] = {}
        last: dict[tuple[str, str, int], int] = {}
        for lease in granted:
            assert lease.task_id in self.owed
            assert lease.task_id not in self.completed
            row = self.rig.row(lease.task_id)
            if row is None or row.epoch != lease.epoch:
                continue
            if self.newest.get(lease.task_id) != lease.token and not row.suspect:
                worst[lease.capability] = min(worst.get(lease.capability, 9), row.priority)
                lane = (lease.capability, row.tenant, row.priority)
                assert last.get(lane, 0) < row.seq
                last[lane] = row.seq
            self.newest[lease.task_id] = lease.token
        for capability, priority in worst.items():
            for head in heads_of(self.rig.core, (NAMESPACE, capability)):
                assert head.priority <= priority
                assert last.get((capability, head.tenant, head.priority), 0) < head.seq

    @rule(
        target=accepted,
        capability=st.sampled_from(QUEUES),
        count=st.integers(1, 4),
        priority=st.integers(0, 2),
        tenant=st.sampled_from(["", "a"]),
        key=st.none() | st.sampled_from(["k1", "k2"]),
        delay=st.sampled_from([0.0, 0.0, 5.0, 40.0]),
        ttl=st.sampled_from([None, None, 8.0]),
    )
    def enqueue(self, capability, count, priority, tenant, key, delay, ttl):
        task = c.NewTask(
            capability,
            priority=priority,
            tenant=tenant,
            idempotency_key=key,
            delay_seconds=delay,
            ttl_seconds=ttl,
        )
        depth = self.rig.stats(capability).ready + self.rig.stats(capability).delayed
        (outcomes,) = self.run(c.Enqueue(NAMESPACE, (task,) * count))
        new = [outcome.id for outcome in outcomes if isinstance(outcome, Accepted) and not outcome.duplicate]
        room = RULES[capability].get("max_depth", 100_000) + 1 - depth
        assert len(new) <= max(0, room)
        if key is None:
            assert len(new) == min(count, max(0, room))
        else:
            assert len(new) <= 1
        return multiple(*new)

    @rule(
        target=tokens,
        name=workers,
        names=capabilities,
        wait=st.sampled_from([0.0, 0.0, 10.0]),
        free=st.integers(1, 4),
    )
    def lease(self, name, names, wait, free):
        held = self._held(name)
        command = self.rig.call(name, *names, slots=SLOTS[name], free=min(free, SLOTS[name]), wait=wait, held=held)
        self.run(command)
        answer = self.rig.answers.get(command.call)
        return multiple(*(lease.token for lease in answer.leases)) if answer is not None else multiple()

    @rule(target=tokens, name=workers)
    def collect_what_parked_calls_brought(self, name):
        return multiple(*self._held(name))

    @rule(
        name=workers, keep=st.booleans(), draining=st.booleans(), checkpoint=st.none() | st.just(b"1"), usage=usages
    )
    def heartbeat(self, name, keep, draining, checkpoint, usage):
        tokens = self._held(name) if keep else []
        beats = tuple(c.Beat(token, checkpoint, usage=self._reports(token, usage)) for token in tokens)
        who = self.rig.who(name)
        self.run(c.Heartbeat(who, QUEUES, SLOTS[name], draining=draining and name == "w3", leases=beats))

    @rule(name=workers, token=tokens, usage=usages)
    def report_of_whoever_once_had_the_task(self, name, token, usage):
        beat = c.Beat(token, usage=self._reports(token, usage))
        self.run(c.Heartbeat(self.rig.who(name), QUEUES, SLOTS[name], leases=(beat,)))

    @rule(token=tokens, twice=st.booleans(), usage=usages)
    def ack(self, token, twice, usage):
        self._settle(token, c.Ack(NAMESPACE, token, usage=self._reports(token, usage)), twice)

    @rule(token=tokens, twice=st.booleans(), retry=st.booleans(), after=st.sampled_from([None, 3.0]), usage=usages)
    def nack(self, token, twice, retry, after, usage):
        usage = self._reports(token, usage)
        self._settle(
            token, c.Nack(NAMESPACE, token, "E", retry=retry, retry_after_seconds=after, usage=usage), twice
        )

    @rule(token=tokens, twice=st.booleans(), delay=st.sampled_from([0, 3]), checkpoint=st.none() | st.just(b"2"))
    def release(self, token, twice, delay, checkpoint):
        self._settle(token, c.Release(NAMESPACE, token, delay_seconds=delay, checkpoint=checkpoint), twice)

    def _reports(self, token: str, usage: Usage | None) -> Usage | None:
        if usage is not None:
            task_id, epoch, _ = token.split(":")
            key = (task_id, int(epoch))
            self.reported[key] = self.reported.get(key, Usage()).raised_to(usage)
        return usage

    def _settle(self, token: str, command, twice: bool) -> None:
        task_id = token.partition(":")[0]
        newest = self.newest[task_id]  # a waiting worker may get the task in the very step that gives it back
        results = self.run(command, command) if twice else self.run(command)
        if not results[0].ok:
            return
        assert len(set(map(repr, results))) == 1, "a repeat gets the same answer"
        op = type(command).__name__
        if token in self.settled:
            assert self.settled[token] == op, "a lease has one settlement"
        else:
            assert newest == token, "only the newest delivery can be settled"
            self.settled[token] = op
        if results[0].state is TaskState.COMPLETED:
            self.completed.add(task_id)

    @rule(
        target=accepted,
        capability=st.sampled_from(QUEUES),
        run=st.sampled_from(["r1", "r2"]),
        delay=st.sampled_from([0.0, 5.0]),
    )
    def enqueue_in_a_run(self, capability, run, delay):
        (outcomes,) = self.run(c.Enqueue(NAMESPACE, (c.NewTask(capability, run_id=run, delay_seconds=delay),) * 2))
        return multiple(*(outcome.id for outcome in outcomes if isinstance(outcome, Accepted)))

    @rule(
        run=st.sampled_from(["r1", "r2"]), tokens=st.none() | st.integers(1, 6), seconds=st.none() | st.just(40.0)
    )
    def cap_a_run(self, run, tokens, seconds):
        self.run(c.PutRun(NAMESPACE, run, Caps(tokens=tokens, seconds=seconds)))

    @rule(run=st.sampled_from(["r1", "r2"]))
    def cancel_a_run(self, run):
        self.run(c.CancelRun(NAMESPACE, run))

    @rule(task_id=accepted)
    def cancel(self, task_id):
        (result,) = self.run(c.Cancel(NAMESPACE, task_id))
        assert (result.state is None) == (task_id not in self.owed)

    @rule(task_id=consumes(accepted), target=accepted, with_nack=st.booleans())
    def redrive(self, task_id, with_nack):
        record = self.rig.record(task_id)
        if record is None:  # purged
            return task_id
        capability = record.live.capability
        commands: list[c.Command] = [c.Redrive(NAMESPACE, capability, (task_id,))]
        if with_nack and task_id in self.newest:
            commands.insert(0, c.Nack(NAMESPACE, self.newest[task_id], "E", retry=False))
        was = record.state_at(self.rig.now)
        results = self.run(*commands)
        assert results[-1][0].redriven <= (was is TaskState.DEAD)
        return task_id

    @rule(task_id=accepted, operation=st.sampled_from(["op1", "op2"]))
    def redrive_by_name(self, task_id, operation):
        record = self.rig.record(task_id)
        if record is None:
            return
        before = self.rig.tables.redriven.get(record.live.seq)
        command = c.Redrive(NAMESPACE, record.live.capability, (task_id,), operation=operation, paced=True)
        ((first,),) = self.run(command)
        assert first.repeated == (before == operation)
        ((again,),) = self.run(command)
        assert again.redriven >= first.redriven, "a repeat gets the same answer"

    @rule(task_id=accepted)
    def purge(self, task_id):
        record = self.rig.record(task_id)
        if record is None:
            return
        dead = record.state_at(self.rig.now) is TaskState.DEAD
        ((result,),) = self.run(c.Purge(NAMESPACE, record.live.capability, (task_id,)))
        assert result.purged == dead
        if dead:
            self.owed.discard(task_id)

    @rule(name=workers, operation=st.sampled_from(["op1", "op2"]), ttl=st.sampled_from([5.0, 50.0]))
    def fence(self, name, operation, ttl):
        worker = self.rig.worker(name)
        busy = worker is not None and worker.leases > 0
        ((result,),) = self.run(c.Fence(operation, (name,), ttl))
        if result.outcome is FenceOutcome.FENCED:
            assert not busy

    @rule(name=workers)
    def unfence(self, name):
        self.run(c.Unfence((name,)))

    @rule(name=workers, operation=st.sampled_from(["op1", "op2"]), drain=st.booleans())
    def cordon(self, name, operation, drain):
        before = self._held(name)
        self.run(c.Cordon(operation, (name,), 30.0, drain))
        assert self._held(name) == before

    @rule(name=workers)
    def uncordon(self, name):
        self.run(c.Uncordon((name,)))

    @rule(capability=st.sampled_from(QUEUES))
    def pause(self, capability):
        self.run(c.Pause(NAMESPACE, capability))
        assert self.rig.stats(capability).leasable == 0

    @rule(capability=st.sampled_from(QUEUES))
    def resume(self, capability):
        self.run(c.Resume(NAMESPACE, capability))

    @rule(data=st.data())
    def abandon(self, data):
        waiting = sorted(self.rig.core.state.calls)
        if waiting:
            call = data.draw(st.sampled_from(waiting))
            self.run(c.Abandon(call))
            assert call not in self.rig.answers

    @rule(listed=st.sets(st.sampled_from(QUEUES)))
    def reconfigure(self, listed):
        self.rig.configure(*(rules for rules in self.rules_in_force if rules.name in listed))
        self.rig.configure(*self.rules_in_force)
        self._look_at_answers()

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 31.0, 100.0]))
    def let_time_pass(self, seconds):
        end = self.rig.now + seconds
        while (deadline := self.rig.core.next_deadline()) <= end:
            self.rig.now = max(self.rig.now, deadline)
            self.run()
        self.rig.now = end
        self.run()

    @rule(seconds=st.sampled_from([0.5, 9.0, 200.0]))
    def stall(self, seconds):
        self.rig.freeze(seconds)

    @rule(seconds=st.sampled_from([0.0, 9.0, 200.0]))
    def restart(self, seconds):
        self.run()
        self.rig.restart(seconds)
        self.run()

    @invariant()
    def every_count_holder_fence_and_queue_is_in_order(self):
        check(self.rig.core)

    @invariant()
    def no_accepted_task_is_lost_or_has_two_ends(self):
        tables = self.rig.tables
        live = {row.id for row in self.rig.core.state.tasks.values()}
        ended = {ending.ended.live.id: ending.ended.state for ending in tables.ended.values()}
        assert live == {row.id for row in tables.live.values()}
        assert self.owed == live | ended.keys()
        assert not live & ended.keys()
        assert {task for task, state in ended.items() if state is TaskState.COMPLETED} == self.completed

    @invariant()
    def every_attempt_is_booked_for_what_it_said_whoever_has_the_task(self):
        rows = self.rig.tables.ledger.values()
        booked = {(row.task_id, row.epoch): row.usage for row in rows if any(row.usage)}
        assert booked == {key: usage for key, usage in self.reported.items() if any(usage)}
        live = self.rig.core.state.tasks
        running = {(row.seq, row.epoch) for row in rows if row.outcome is AttemptOutcome.RUNNING}
        leases = {(seq, row.epoch): row.lease for seq, row in live.items() if row.lease is not None}
        assert running == {key for key, lease in leases.items() if any(lease.usage) or lease.reserved is not None}

    @invariant()
    def a_restart_would_change_nothing(self):
        again = Core(self.rig.store.load(), self.rig.core.state.now, self.rig.rand, self.rig.settings)
        assert picture(again) == picture(self.rig.core)

    def _held(self, name: str) -> list[str]:
        worker = self.rig.core.state.workers.get((NAMESPACE, name, "1"))
        rows = [self.rig.core.state.tasks[seq] for seq in sorted(worker.leases)] if worker is not None else []
        return [f"{row.id}:{row.epoch}:{row.secret}" for row in rows]


TestCoreMachine = CoreMachine.TestCase
TestCoreMachine.settings = settings(
    max_examples=1500 if os.environ.get("LEADSMAN_LONG") else 100,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
