"""The broker, the workers and the clock of one schedule."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

from core_rig import NAMESPACE, check, picture
from core_simulation.feature import Feature
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core, Step
from leadsman_broker.core.leases import STALL_SHARE
from leadsman_broker.core.results import Answer, Granted
from leadsman_broker.core.settings import Settings
from leadsman_broker.store.memory import MemoryStore, MemoryTables

CAPABILITIES = ("browser", "llm")
COMPARE_EVERY = 8
"""Steps between two looks at whether a restart would bring back what is in memory."""

MOST_STEPS_AT_ONE_TIME = 200


class Fate(Enum):
    """What becomes of a step of the broker."""

    ANSWERED = "answered"
    KILLED_BEFORE_COMMIT = "killed before the commit"
    KILLED_BEFORE_REPLY = "killed between commit and reply"


@dataclass
class Held:
    """A lease as its worker knows it."""

    task_id: str
    capability: str
    epoch: int
    expires_at: float
    """The broker promised not to take it back before."""
    ends_at: float
    """End of the attempt; no promise goes beyond."""


@dataclass(eq=False)
class Hand:
    """A worker process: what it was told, which may be less than what the broker gave it."""

    pod: str
    slots: int
    capabilities: tuple[str, ...]
    incarnation: int = 1
    draining: bool = False
    held: dict[str, Held] = field(default_factory=dict)
    call: int | None = None
    """Its lease call that has no answer yet."""
    attempt: str = ""
    """attempt_id of its last lease call."""
    retry_attempt: bool = False
    """That call's answer was lost."""

    def who(self) -> c.Worker:
        return c.Worker(NAMESPACE, self.pod, str(self.incarnation), pool="pool")


class World:
    """One broker with durable tables, three pods, and everything that anyone knows."""

    def __init__(self, seed: int, features: Iterable[type[Feature]]) -> None:
        dice = Random(f"{seed}:world")
        self.now = 1_000_000.0
        self.settings = Settings(
            reclaim_jitter=dice.choice([0.0, 0.2]),
            suspect_patience_seconds=20.0,
            delivery_grace_seconds=1.0,
            sweep_seconds=30.0,
            key_retention_seconds=1e9,
        )
        self.rand = Random(f"{seed}:core")
        self.tables = MemoryTables()
        self.trace: list[str] = []
        self.lost_replies: set[str] = set()
        """Tokens of leases whose worker was not told of them when it got them."""
        self.steps = 0
        self.hands = [
            Hand("p1", 1, ("browser",)),
            Hand("p2", dice.choice([2, 3]), CAPABILITIES),
            Hand("p3", dice.choice([3, 8]), ("llm", "browser")),
        ]
        self._calls = itertools.count(1)
        self._attempts = itertools.count(1)
        self._stepped_at = self.now
        self.features = [make(self) for make in features]
        self.actions = [action for feature in self.features for action in feature.actions()]
        self.rules: dict[str, CapabilityConfig] = {}
        for name in CAPABILITIES:
            fields: dict[str, Any] = {"completed_retention_seconds": 1e7, "dead_retention_seconds": 1e7}
            for feature in self.features:
                fields |= feature.rules(name, dice)
            self.rules[name] = CapabilityConfig(name=name, **fields)
        self.generation = 0

    def start(self) -> None:
        """Start the first broker and configure it."""
        self._start()
        self.configure(self.rules)

    # The broker

    def turn(self, *commands: c.Command, fate: Fate = Fate.ANSWERED) -> list[Any] | None:
        """Let the broker take one step; None when its replies are lost because it was killed."""
        given = len(commands)
        everything = [*commands, *self.core.chores(self.now)]
        for feature in self.features:
            feature.before(everything)
        self._promise_after_stall()
        loaded = self.store.read(self.core.needs(everything))
        step = self.core.step(everything, loaded, self.now, self.rand)
        self.steps += 1
        if fate is Fate.KILLED_BEFORE_COMMIT:
            self.restart()
            return None
        if step.changes:
            self.store.commit(step.changes)
        for feature in self.features:
            feature.committed(step)
        if fate is Fate.KILLED_BEFORE_REPLY:
            self.lost_replies.update(lease.token for answer in step.answers for lease in answer.leases)
            self.restart()
            return None
        self._deliver(step)
        if commands or step.changes or step.answers:  # else only time has passed
            self._check()
        return step.results[:given]

    def restart(self, seconds: float = 0.0, *, clock_step: float = 0.0) -> None:
        """Kill the broker and start it `seconds` later, by a wall clock that was set by `clock_step` meanwhile."""
        before, self.now = self.now, max(self.now + seconds + clock_step, self.tables.last_at)
        for hand in self.hands:
            if hand.call is not None:
                hand.call, hand.retry_attempt = None, True
            for held in hand.held.values():
                extended = self.now + self.rules[held.capability].lease_seconds
                self._promise(held, before, at_least=extended)
                if self.now < before:  # the same number of seconds from now is an earlier time by a clock set back
                    held.expires_at = min(held.expires_at, extended)
        self._start()
        for feature in self.features:
            feature.restarted()
        if not self.tables.restoring:  # what it lets go of is durable with its first step only
            self._check()

    def pass_time(self, seconds: float) -> None:
        """Let time pass as a shell would: a step at every deadline on the way."""
        end = self.now + seconds
        idle = 0
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            idle = idle + 1 if deadline <= self.now else 0
            assert idle < MOST_STEPS_AT_ONE_TIME, "a deadline is never met"
            self.now = max(self.now, deadline)
            self.turn()
        self.now = end
        self.turn()

    def configure(self, rules: dict[str, CapabilityConfig], fate: Fate = Fate.ANSWERED) -> None:
        self.generation += 1
        self.turn(c.Configure(NAMESPACE, self.generation, tuple(rules.values())), fate=fate)
        for feature in self.features:
            feature.reconfigured(rules)

    # Workers

    def lease_call(self, hand: Hand, *, free: int, wait: float, same_attempt: bool) -> c.Lease:
        """Make a lease call; its answer goes to the hand whenever it comes, unless the hand is gone by then."""
        if not (same_attempt and hand.attempt):
            hand.attempt = f"a{next(self._attempts)}"
        hand.call = next(self._calls)
        hand.retry_attempt = False
        return c.Lease(
            call=hand.call,
            worker=hand.who(),
            capabilities=hand.capabilities,
            slots=hand.slots,
            free_slots=free,
            attempt_id=hand.attempt,
            held=tuple(hand.held),
            wait_seconds=wait,
        )

    def end_life(self, hand: Hand) -> None:
        """The worker process dies; its pod starts another. What it held is left behind."""
        if hand.call is not None:
            self.turn(c.Abandon(hand.call))
        hand.held, hand.call, hand.attempt, hand.retry_attempt = {}, None, "", False
        hand.draining = False
        hand.incarnation += 1

    def finish_all(self, hand: Hand) -> None:
        """Complete everything a worker holds."""
        self.turn(*(c.Ack(NAMESPACE, token) for token in hand.held))
        hand.held.clear()

    def fate(self, dice: Random) -> Fate:
        roll = dice.random()
        if roll < 0.03:
            return Fate.KILLED_BEFORE_COMMIT
        return Fate.KILLED_BEFORE_REPLY if roll < 0.06 else Fate.ANSWERED

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now - 1_000_000.0:9.2f}  {text}")

    def _start(self) -> None:
        self.store = MemoryStore(self.tables)
        self.core = Core(self.store.load(), self.now, self.rand, self.settings)
        self._stepped_at = self.now

    def _deliver(self, step: Step) -> None:
        """Give answers to those who still wait for them."""
        waiting = {hand.call: hand for hand in self.hands if hand.call is not None}
        for answer in step.answers:
            hand = waiting.pop(answer.call, None)
            if hand is None:
                self.lost_replies.update(lease.token for lease in answer.leases)
            else:
                hand.call = None
                self._receive(hand, answer)

    def _receive(self, hand: Hand, answer: Answer) -> None:
        for lease in answer.leases:
            repeated = lease.token in hand.held
            hand.held[lease.token] = self._held(lease)
            self.note(f"{hand.pod}.{hand.incarnation} {'has' if repeated else 'gets'} {lease.token[:16]}")
            for feature in self.features:
                feature.granted(hand, lease, repeated=repeated)

    def _held(self, lease: Granted) -> Held:
        ends_at = self.now + lease.attempt_timeout_seconds
        return Held(lease.task_id, lease.capability, lease.epoch, lease.expires_at, ends_at)

    def _promise(self, held: Held, before: float, *, at_least: float) -> None:
        """Extend a lease as the broker must, if it was good still at the time `before`."""
        if held.expires_at > before:
            held.expires_at = min(max(held.expires_at, at_least), held.ends_at)

    def _promise_after_stall(self) -> None:
        before, self._stepped_at = self._stepped_at, self.now
        gap = self.now - before
        for hand in self.hands:
            for held in hand.held.values():
                lease_seconds = self.rules[held.capability].lease_seconds
                if gap > lease_seconds * STALL_SHARE:
                    self._promise(held, before, at_least=self.now + lease_seconds)

    def _check(self) -> None:
        check(self.core)
        for feature in self.features:
            feature.check()
        if self.steps % COMPARE_EVERY == 0:
            again = Core(self.store.load(), self.core.state.now, Random(0), self.settings)
            assert picture(again) == picture(self.core), "a restart would not bring back what is in memory"
