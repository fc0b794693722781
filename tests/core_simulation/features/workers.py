"""Workers: they lease, renew, settle, repeat, settle what they lost long ago, and die. No lease is taken early."""

from collections.abc import Sequence
from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from core_simulation.world import Hand, Held, World
from leadsman.wire.leases import LeaseStatus
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import HeartbeatOutcome, Settled

ENDS = {TaskState.COMPLETED, TaskState.DEAD, TaskState.CANCELLED, TaskState.EXPIRED, TaskState.SHED}
Settlement = c.Ack | c.Nack | c.Release


class Workers(Feature):
    """Every token ever seen stays known, so that old ones are tried too."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.old: dict[str, Held] = {}
        """Leases that no worker counts as its own any more."""
        self.settled: dict[str, tuple[type, TaskState]] = {}
        """Token -> how a lease ended, as it was answered."""
        self.unsure: dict[str, Settlement] = {}
        """Token -> a settlement whose answer was lost."""

    def rules(self, capability, dice):
        if capability == "llm":
            return {"lease_seconds": 4.0, "attempt_timeout_seconds": 15.0, "backoff_seconds": 0.0}
        return {"max_reclaims": dice.choice([1, 2, 3])}

    def actions(self):
        return [
            (40, self.lease),
            (20, self.heartbeat),
            (40, self.settle),
            (6, self.settle_again),
            (8, self.settle_what_is_old),
            (5, self.die),
            (2, self.drain),
        ]

    def lease(self, dice: Random) -> None:
        hand = self._hand(dice)
        free = dice.randint(1, hand.slots) if dice.random() < 0.2 else hand.slots - len(hand.held)
        same_attempt = hand.retry_attempt and dice.random() < 0.8
        if free <= 0 or hand.draining:
            return
        call = self.world.lease_call(hand, free=free, wait=dice.choice([0.0, 10.0]), same_attempt=same_attempt)
        results = self.world.turn(call, fate=self.world.fate(dice))
        if results is None:
            self.world.note(f"{hand.pod} asked for {free}, no answer")

    def heartbeat(self, dice: Random) -> None:
        hand = self._hand(dice)
        checkpoint = b"1" if dice.random() < 0.3 else None
        beats = tuple(c.Beat(token, checkpoint) for token in hand.held)
        results = self.world.turn(
            c.Heartbeat(hand.who(), hand.capabilities, hand.slots, draining=hand.draining, leases=beats),
            fate=self.world.fate(dice),
        )
        if results is None:
            return
        outcome = results[0]
        assert isinstance(outcome, HeartbeatOutcome)
        for beat in outcome.leases:
            held = hand.held[beat.token]
            if beat.status is LeaseStatus.LEASE_LOST:
                self._lose(hand, beat.token)
            else:
                assert beat.expires_at >= min(held.expires_at, held.ends_at), "a renewal made a lease shorter"
                held.expires_at = beat.expires_at

    def settle(self, dice: Random) -> None:
        hand = self._hand(dice)
        if hand.held:
            token = dice.choice(sorted(hand.held))
            command = self._settlement(token, dice)
            self._settle(hand, token, [command] * dice.choice([1, 1, 1, 2]), dice)

    def settle_again(self, dice: Random) -> None:
        """Repeat what had no answer, as a worker does before anything else."""
        if self.unsure:
            token = dice.choice(sorted(self.unsure))
            hand = next((hand for hand in self.world.hands if token in hand.held), None)
            self._settle(hand, token, [self.unsure[token]], dice)

    def settle_what_is_old(self, dice: Random) -> None:
        if self.old:
            token = dice.choice(sorted(self.old))
            self._settle(None, token, [self._settlement(token, dice)], dice)

    def die(self, dice: Random) -> None:
        hand = self._hand(dice)
        self.world.note(f"{hand.pod}.{hand.incarnation} dies with {len(hand.held)}")
        self.old.update(hand.held)
        self.world.end_life(hand)

    def drain(self, dice: Random) -> None:
        hand = self._hand(dice)
        hand.draining = not hand.draining
        beats = tuple(c.Beat(token) for token in hand.held)
        self.world.turn(
            c.Heartbeat(hand.who(), hand.capabilities, hand.slots, draining=hand.draining, leases=beats)
        )

    def _hand(self, dice: Random) -> Hand:
        return dice.choice(self.world.hands)

    def _settlement(self, token: str, dice: Random) -> Settlement:
        roll = dice.random()
        if roll < 0.55:
            return c.Ack(NAMESPACE, token, b'"done"')
        if roll < 0.8:
            after = dice.choice([None, None, 3.0])
            return c.Nack(NAMESPACE, token, "Error", retry=dice.random() < 0.8, retry_after_seconds=after)
        return c.Release(NAMESPACE, token, delay_seconds=dice.choice([0.0, 3.0]))

    def _settle(self, hand: Hand | None, token: str, commands: Sequence[Settlement], dice: Random) -> None:
        held = hand.held[token] if hand is not None else self.old.get(token)
        op = type(commands[0])
        results = self.world.turn(*commands, fate=self.world.fate(dice))
        if results is None:
            if token not in self.settled:
                self.unsure[token] = commands[0]
            self.world.note(f"{op.__name__} of {token[:16]}, no answer")
            return
        result = results[0]
        assert isinstance(result, Settled)
        self.world.note(f"{op.__name__} of {token[:16]}: {result.state or result.code}")
        same = all(other._replace(tasks=None) == result._replace(tasks=None) for other in results)
        assert same, "a repeat got another answer"  # but for its follow-up tasks, of which it is told once
        if result.code == "follow_up_refused":
            return  # nothing is done, the lease still holds
        if result.ok:
            assert result.state is not None
            first = token not in self.settled and token not in self.unsure
            assert self.settled.setdefault(token, (op, result.state)) == (op, result.state), "settled twice"
            if first and result.state in ENDS and held is not None:
                record = self.world.store.task(NAMESPACE, held.task_id, self.world.now)
                assert record is not None
                assert record.ended is not None, "it was told to have ended and has not"
                assert record.ended.state is result.state
        else:
            sure = self.unsure.get(token)
            if hand is not None and sure is None:
                assert self.world.now >= held.expires_at, f"{token} was lost before its time: {result}"
        self.unsure.pop(token, None)
        if hand is not None:
            self.old[token] = hand.held.pop(token)

    def _lose(self, hand: Hand, token: str) -> None:
        held = hand.held[token]
        if token not in self.unsure:
            assert self.world.now >= held.expires_at, f"{token} was lost {held.expires_at - self.world.now} s early"
        self.world.note(f"{hand.pod} lost {token[:16]}")
        self.old[token] = hand.held.pop(token)


FEATURE = Workers
