"""Pauses: nothing of a paused capability is given out, whoever waits and whatever starts, until it is resumed."""

from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from core_simulation.world import CAPABILITIES, Hand, World
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Granted, Paused


class Pauses(Feature):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.paused: set[str] = set()
        """Capabilities whose pause was answered, and whose resumption was not asked for since."""

    def actions(self):
        return [(3, self.pause), (4, self.resume)]

    def pause(self, dice: Random) -> None:
        name = dice.choice(CAPABILITIES)
        results = self.world.turn(c.Pause(NAMESPACE, name, "a look"), fate=self.world.fate(dice))
        if results is not None:
            assert isinstance(results[0], Paused)
            self.world.note(f"{name} is paused: {results[0].known}")
            if results[0].pause is not None:
                self.paused.add(name)

    def resume(self, dice: Random) -> None:
        name = dice.choice(CAPABILITIES)
        self.paused.discard(name)
        self.world.turn(c.Resume(NAMESPACE, name), fate=self.world.fate(dice))

    def granted(self, hand: Hand, lease: Granted, *, repeated: bool) -> None:
        again = repeated or lease.token in self.world.lost_replies
        assert again or lease.capability not in self.paused, f"{lease.capability} is paused and was given out"

    def heal(self) -> None:
        self.paused.clear()
        for name in CAPABILITIES:
            self.world.turn(c.Resume(NAMESPACE, name))


FEATURE = Pauses
