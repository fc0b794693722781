"""Run schedules from the command line."""

import argparse
import sys
import time

from core_simulation import Schedule, replay, shrink
from core_simulation.features import FEATURES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m core_simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from there")
    parser.add_argument("--steps", help="only these step numbers, as a failure prints them")
    parser.add_argument("--without", action="append", default=[], choices=sorted(FEATURES))
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    started = time.monotonic()
    for seed in range(given.seed, given.seed + given.count):
        schedule = Schedule(seed, without=frozenset(given.without))
        if given.steps is not None:
            steps = tuple(int(number) for number in given.steps.split(",") if number)
            schedule = Schedule(seed, steps, frozenset(given.without))
        failure = replay(schedule)
        if failure is not None:
            print(failure if given.no_shrink else shrink(failure))
            return 1
    print(f"{given.count} schedules held, {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
