"""Running a schedule, and cutting a failing one down to the steps that matter."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from core_simulation.features import FEATURES
from core_simulation.world import World

STEPS = 60


@dataclass(frozen=True)
class Schedule:
    """A life of a broker."""

    seed: int
    steps: tuple[int, ...] = tuple(range(STEPS))
    without: frozenset[str] = frozenset()

    def __str__(self) -> str:
        steps = "" if self.steps == tuple(range(STEPS)) else f" --steps {','.join(map(str, self.steps))}"
        without = "".join(f" --without {name}" for name in sorted(self.without))
        return f"python -m core_simulation --seed {self.seed}{steps}{without}"


@dataclass(frozen=True)
class Failure:
    """What was broken, and how to see it again."""

    schedule: Schedule
    what: str
    where: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.what, *self.trace, self.where, f"replay: {self.schedule}"])


def run(schedule: Schedule) -> World:
    """Run a schedule from its beginning to the end of all its work. Raises whatever goes wrong on the way."""
    return _run(_world(schedule), schedule)


def replay(schedule: Schedule) -> Failure | None:
    """Run a schedule; return what it broke, if anything."""
    world = _world(schedule)
    try:
        _run(world, schedule)
    except Exception as error:  # noqa: BLE001  # an exception of the core is a failure as an assertion is
        what = f"{type(error).__name__}: {error}".strip()
        return Failure(schedule, what, traceback.format_exc(), tuple(world.trace))
    return None


def _world(schedule: Schedule) -> World:
    return World(schedule.seed, [make for name, make in FEATURES.items() if name not in schedule.without])


def _run(world: World, schedule: Schedule) -> World:
    world.start()
    for number in schedule.steps:
        dice = Random(f"{schedule.seed}:{number}")
        weights, actions = zip(*world.actions, strict=True)
        (action,) = dice.choices(actions, weights)
        action(dice)
    settle_everything(world)
    return world


def settle_everything(world: World) -> None:
    """Nothing that was accepted is stuck: with nothing in the way and a worker at hand, all of it ends."""
    for feature in world.features:
        feature.heal()
    for hand in world.hands:
        world.end_life(hand)
    last = world.hands[1]
    last.slots = 60
    world.pass_time(60.0)  # in steps, so that every lease runs out
    for _ in range(40):
        world.now += 400.0
        world.turn()
        world.turn(world.lease_call(last, free=last.slots, wait=0.0, same_attempt=False))
        world.finish_all(last)
        if not world.tables.live:
            return
    raise AssertionError(f"{len(world.tables.live)} tasks never come to an end")


def shrink(failure: Failure, *, look: Callable[[Schedule], Failure | None] = replay, most: int = 600) -> Failure:
    """Return a failure of as few steps as can be found with `most` replays: delta debugging."""
    best = failure
    parts = 2
    replays = 0
    while replays < most and len(best.schedule.steps) > 1:
        steps = best.schedule.steps
        size = max(1, len(steps) // parts)
        for start in range(0, len(steps), size):
            fewer = Schedule(best.schedule.seed, steps[:start] + steps[start + size :], best.schedule.without)
            replays += 1
            found = look(fewer)
            if found is not None:
                best, parts = found, max(2, parts - 1)
                break
            if replays >= most:
                break
        else:
            if size == 1:
                break
            parts = min(len(steps), parts * 2)
    return best
