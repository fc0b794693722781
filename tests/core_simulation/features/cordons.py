"""Cordons: a pod keeps what it holds and is given nothing new, until the cordon is lifted or its time is over."""

from random import Random

from core_simulation.feature import Feature
from core_simulation.world import Hand, World
from leadsman.wire.workers import CordonOutcome
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Granted


class Cordons(Feature):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.until: dict[str, float] = {}
        """Pod -> end of a cordon that was answered."""

    def actions(self):
        return [(4, self.cordon), (3, self.uncordon)]

    def cordon(self, dice: Random) -> None:
        pod = dice.choice([hand.pod for hand in self.world.hands])
        command = c.Cordon(dice.choice(["op1", "op2"]), (pod,), dice.choice([5.0, 50.0]), drain=dice.random() < 0.2)
        results = self.world.turn(command, fate=self.world.fate(dice))
        if results is not None and results[0][0].outcome is CordonOutcome.CORDONED:
            self.world.note(f"{pod} is cordoned")
            self.until[pod] = self.world.now + command.ttl_seconds

    def uncordon(self, dice: Random) -> None:
        pod = dice.choice([hand.pod for hand in self.world.hands])
        self.until.pop(pod, None)
        self.world.turn(c.Uncordon((pod,)))

    def granted(self, hand: Hand, lease: Granted, *, repeated: bool) -> None:
        until = self.until.get(hand.pod, 0.0)
        # A lost reply is given again: what it names was leased before the cordon.
        again = repeated or lease.token in self.world.lost_replies
        assert again or self.world.now >= until, f"{hand.pod} is cordoned and was given {lease.task_id}"

    def restarted(self) -> None:
        self.until.clear()  # ends by a clock that may have been set

    def heal(self) -> None:
        self.until.clear()
        self.world.turn(c.Uncordon(tuple(hand.pod for hand in self.world.hands)))


FEATURE = Cordons
