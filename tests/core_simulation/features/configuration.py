"""Configuration: rules change, a queue is unlisted while it holds work and comes back, old pushes are ignored."""

from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Configured


class Configuration(Feature):
    def actions(self):
        return [(3, self.change), (3, self.unlist), (1, self.push_an_old_one)]

    def change(self, dice: Random) -> None:
        name = dice.choice(sorted(self.world.rules))
        changed = {"max_depth": dice.choice([3, 12, 1000]), "backoff_seconds": dice.choice([0.0, 1.0, 20.0])}
        self.world.rules[name] = self.world.rules[name].model_copy(update=changed)
        self.world.note(f"{name} now has {changed}")
        self.world.configure(self.world.rules)

    def unlist(self, dice: Random) -> None:
        name = dice.choice(sorted(self.world.rules))
        self.world.note(f"{name} is not listed any more")
        self.world.configure({other: rules for other, rules in self.world.rules.items() if other != name})
        if dice.random() < 0.8:
            self.heal()

    def push_an_old_one(self, dice: Random) -> None:
        if self.world.generation > 1:
            results = self.world.turn(c.Configure(NAMESPACE, self.world.generation - 1, ()))
            assert results is not None
            assert isinstance(results[0], Configured)
            assert not results[0].applied

    def heal(self) -> None:
        self.world.configure(self.world.rules)


FEATURE = Configuration
