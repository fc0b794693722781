"""Time: it passes, stands still for the broker, and the wall clock is set while the broker is down."""

from random import Random

from core_simulation.feature import Feature


class Time(Feature):
    def actions(self):
        return [(25, self.passes), (4, self.stalls), (4, self.restarts)]

    def passes(self, dice: Random) -> None:
        seconds = dice.choice([0.01, 0.1, 1.0, 1.0, 3.0, 3.0, 31.0, 100.0])
        self.world.note(f"{seconds} s pass")
        self.world.pass_time(seconds)

    def stalls(self, dice: Random) -> None:
        """The next step comes late, whoever causes it."""
        seconds = dice.choice([0.5, 2.0, 9.0, 200.0])
        self.world.note(f"the broker stands still for {seconds} s")
        self.world.now += seconds

    def restarts(self, dice: Random) -> None:
        seconds, clock_step = dice.choice([0.0, 2.0, 200.0]), dice.choice([0.0, 0.0, -300.0, 300.0])
        self.world.note(f"restart {seconds} s later, the clock set by {clock_step} s")
        self.world.turn()
        self.world.restart(seconds, clock_step=clock_step)


FEATURE = Time
