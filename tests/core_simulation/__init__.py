"""One seeded simulation of a broker's whole life against the pure core, checked after every step.

    python -m core_simulation --seed 7              one schedule, with its trace when it fails
    python -m core_simulation --seed 0 --count 5000 many, the first failure shrunk

A schedule is a seed and a list of step numbers. What step 12 does depends on the seed, on the number and on the
world it meets, so that leaving other steps out, which is how a failure is shrunk, leaves it what it is.

What happens in it and what must hold is in `features`, one file each: `Feature` says how to add one.
"""

from core_simulation.feature import Feature
from core_simulation.schedule import Failure, Schedule, replay, run, shrink
from core_simulation.world import World

__all__ = ["Failure", "Feature", "Schedule", "World", "replay", "run", "shrink"]
