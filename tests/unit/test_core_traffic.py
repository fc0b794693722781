"""Dense random traffic: many commands in each step, checked after every one. A seed replays its run exactly."""

import os
import random

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig, check, picture
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core
from leadsman_broker.core.results import Accepted
from leadsman_broker.core.settings import Settings

SEEDS = 300 if os.environ.get("LEADSMAN_LONG") else 12
STEPS = 250
NAMES = ("llm", "code", CAPABILITY)
SLOTS = {f"w{number}": 1 + number % 4 for number in range(8)}


class Traffic:
    """Producers, workers that come and go, an operator that fences, and a clock, all drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rig = Rig(
            CapabilityConfig(name="llm", lease_seconds=5, backoff_seconds=0.2, max_attempts=4),
            CapabilityConfig(name="code", attempt_timeout_seconds=40, max_depth=20, max_depth_per_tenant=6),
            CapabilityConfig(name=CAPABILITY, max_attempts=30, max_reclaims=2, completed_retention_seconds=200),
            settings=Settings(suspect_patience_seconds=15.0, timers_per_step=7),
            seed=seed,
        )
        self.tokens: list[str] = []
        self.known: list[str] = []
        self.purged: set[str] = set()
        self.alive = set(SLOTS)
        self.completed: set[str] = set()
        self.newest: dict[str, str] = {}
        self.settled: dict[str, str] = {}

    def step(self) -> None:
        dice, rig = self.dice, self.rig
        rig.now += dice.choice([0.0, 0.01, 0.3, 1.0, 1.0, 4.0, 12.0])
        if dice.random() < 0.03:
            rig.restart(dice.choice([0.0, 20.0, 400.0]))
        if dice.random() < 0.2:
            self.alive ^= {dice.choice([*SLOTS])}
        commands = [self.command() for _ in range(dice.randrange(12))]
        results = rig.run(commands)
        self.purged.update(row.task_id for row in rig.last.changes.purged)
        for command, result in zip(commands, results, strict=True):
            self.note(command, result)
        for answer in rig.last.answers:
            for lease in answer.leases:
                assert lease.task_id not in self.completed, "a completed task is never delivered again"
                self.tokens.append(lease.token)
                self.newest[lease.task_id] = lease.token
        del self.tokens[:-60]

    def command(self) -> c.Command:
        dice = self.dice
        kind = dice.randrange(20)
        if kind < 5:
            return c.Enqueue(NAMESPACE, tuple(self.new_task() for _ in range(dice.randrange(1, 5))))
        if kind < 9:
            name = dice.choice([*SLOTS])
            names = tuple(dice.sample(NAMES, dice.randrange(1, 4)))
            return self.rig.call(
                name,
                *names,
                slots=SLOTS[name],
                free=dice.randrange(1, SLOTS[name] + 1),
                wait=dice.choice([0.0, 3.0, 30.0]),
                held=self.held(name),
                free_by=dice.choice([None, {names[0]: 1}]),
            )
        if kind < 12:
            name = dice.choice([*self.alive] or [*SLOTS])
            checkpoint = dice.choice([None, b"1"])
            beats = tuple(c.Beat(token, checkpoint) for token in self.held(name))
            return c.Heartbeat(self.rig.who(name), NAMES, SLOTS[name], draining=dice.random() < 0.05, leases=beats)
        if kind < 17 and self.tokens:
            token = dice.choice(self.tokens[-20:])
            return dice.choice(
                [
                    c.Ack(NAMESPACE, token, b"1"),
                    c.Ack(NAMESPACE, token),
                    c.Nack(NAMESPACE, token, "E", retry=dice.random() < 0.7, checkpoint=dice.choice([None, b"2"])),
                    c.Release(NAMESPACE, token, delay_seconds=dice.choice([0.0, 5.0])),
                ]
            )
        if kind == 17 and self.known:
            task_id = dice.choice(self.known)
            return dice.choice(
                [
                    c.Cancel(NAMESPACE, task_id),
                    c.Redrive(NAMESPACE, dice.choice(NAMES), (task_id, *self.known[-5:])),
                ]
            )
        pods = tuple(dice.sample([*SLOTS], 2))
        operation = dice.choice(["op1", "op2"])
        return c.Fence(operation, pods, dice.choice([3.0, 30.0])) if dice.random() < 0.6 else c.Unfence(pods)

    def new_task(self) -> c.NewTask:
        dice = self.dice
        return c.NewTask(
            dice.choice(NAMES),
            payload=b"%d" % dice.randrange(3),
            tenant=dice.choice(["", "", "a", "b"]),
            task_class=dice.choice([*TaskClass]),
            priority=dice.choice([None, 0, 9]),
            idempotency_key=dice.choice([None, None, f"k{dice.randrange(30)}"]),
            delay_seconds=dice.choice([0.0, 0.0, 0.0, 6.0]),
            ttl_seconds=dice.choice([None, None, 9.0]),
        )

    def held(self, name: str) -> list[str]:
        """What the worker knows: now and then it never got a reply."""
        worker = self.rig.core.state.workers.get((NAMESPACE, name, "1"))
        if worker is None or self.dice.random() < 0.15:
            return []
        rows = [self.rig.core.state.tasks[seq] for seq in sorted(worker.leases)]
        return [f"{row.id}:{row.epoch}:{row.secret}" for row in rows]

    def note(self, command: c.Command, result) -> None:
        if isinstance(command, c.Enqueue):
            new = [outcome.id for outcome in result if isinstance(outcome, Accepted) and not outcome.duplicate]
            self.known += new
        elif isinstance(command, c.Ack | c.Nack | c.Release) and result.ok:
            task_id = command.token.partition(":")[0]
            op = type(command).__name__
            if command.token in self.settled:
                assert self.settled[command.token] == op, "a lease has one settlement"
            else:
                assert self.newest[task_id] == command.token, "only the newest delivery can be settled"
                self.settled[command.token] = op
            if result.state is TaskState.COMPLETED:
                self.completed.add(task_id)

    def check(self) -> None:
        rig = self.rig
        check(rig.core)
        live = {row.id for row in rig.core.state.tasks.values()}
        ended = {ending.ended.live.id: ending for ending in rig.tables.ended.values()}
        assert live == {row.id for row in rig.tables.live.values()}
        assert not live & ended.keys()
        assert not live & self.completed
        for task_id in self.known:
            assert task_id in live or task_id in ended or task_id in self.purged, f"{task_id} was lost"
        for task_id, ending in ended.items():
            assert (ending.ended.state is TaskState.COMPLETED) == (task_id in self.completed)
        dead = [ending.ended.live.capability for ending in ended.values() if ending.ended.state is TaskState.DEAD]
        for name in NAMES:
            assert rig.core.queue_stats((NAMESPACE, name), rig.now).dead == dead.count(name)
        assert set(rig.tables.payloads) == set(rig.tables.live) | {
            seq for seq, ending in rig.tables.ended.items() if ending.ended.state is TaskState.DEAD
        }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_dense_traffic_loses_and_doubles_nothing(seed):
    traffic = Traffic(seed)
    for number in range(STEPS):
        traffic.step()
        traffic.check()
        if number % 25 == 0:
            core = traffic.rig.core
            again = Core(traffic.rig.store.load(), core.state.now, random.Random(1), traffic.rig.settings)
            assert picture(again) == picture(core)
    assert len(traffic.completed) > 20, "the traffic does real work"


@pytest.mark.parametrize("seed", range(3))
def test_everything_that_was_accepted_ends_once_the_workers_are_left_in_peace(seed):
    traffic = Traffic(seed)
    for _ in range(100):
        traffic.step()
    rig = traffic.rig
    rig.wait(500)
    for _ in range(400):
        for lease in rig.lease("steady", *NAMES, slots=50):
            assert rig.ack(lease).ok
        rig.wait(20)
        if not rig.core.state.tasks:
            break
    assert not rig.core.state.tasks
    assert [rig.stats(name).ready + rig.stats(name).delayed + rig.stats(name).leased for name in NAMES] == [0, 0, 0]
