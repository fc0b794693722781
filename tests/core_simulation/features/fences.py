"""Fences: only while nothing is held, durable, and a fenced pod gets nothing."""

from random import Random

from core_simulation.feature import Feature
from core_simulation.world import Hand, World
from leadsman.wire.workers import FenceOutcome
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Granted


class Fences(Feature):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.until: dict[str, float] = {}
        """Pod -> end of a fence that was answered."""

    def actions(self):
        return [(6, self.fence), (4, self.unfence)]

    def fence(self, dice: Random) -> None:
        pod = dice.choice([hand.pod for hand in self.world.hands])
        operation, ttl = dice.choice(["op1", "op2"]), dice.choice([5.0, 50.0])
        results = self.world.turn(c.Fence(operation, (pod,), ttl), fate=self.world.fate(dice))
        if results is None:
            return
        (fenced,) = results[0]
        self.world.note(f"fence {pod}: {fenced.outcome.value}")
        if fenced.outcome is FenceOutcome.FENCED:
            busy = [
                token
                for hand in self.world.hands
                for token, held in hand.held.items()
                if hand.pod == pod and held.expires_at > self.world.now and self._holds(token)
            ]
            assert not busy, f"{pod} was fenced while it holds {busy}"
            self.until[pod] = self.world.now + ttl

    def unfence(self, dice: Random) -> None:
        pod = dice.choice([hand.pod for hand in self.world.hands])
        self.until.pop(pod, None)
        self.world.turn(c.Unfence((pod,)))

    def granted(self, hand: Hand, lease: Granted, *, repeated: bool) -> None:
        until = self.until.get(hand.pod, 0.0)
        assert repeated or self.world.now >= until, f"{hand.pod} is fenced and was given {lease.task_id}"

    def restarted(self) -> None:
        # The wall clock may have been set, so ends by the old one say nothing any more.
        self.until.clear()

    def heal(self) -> None:
        self.until.clear()
        self.world.turn(c.Unfence(tuple(hand.pod for hand in self.world.hands)))

    def _holds(self, token: str) -> bool:
        """Whether its settlement may not have arrived: one without an answer may have ended the lease."""
        return not any(token in getattr(feature, "unsure", ()) for feature in self.world.features)


FEATURE = Fences
