"""The interactive reserve beside what else bounds a fleet: its background tasks run side by side all the same."""

import pytest

from leadsman_operator.scaling.model import Background
from scaling_cases import pool
from scaling_cases.played import Played


@pytest.mark.parametrize("percent", [0, 20, 40, 50, 60, 80])
def test_background_tasks_that_come_one_by_one_all_run_beside_the_reserve(percent):
    """Slots that are to stay free are no sign that workers are not what is missing."""
    played = Played((pool(max_replicas=60),), {"browser": 0}, reserve_percent=percent)

    def one_in_fifteen_seconds(second):
        if second % 15 == 0 and second < 150:
            played.waiting["browser"] += 1

    played.play(1200, one_in_fifteen_seconds)

    assert played.running("browser") == 10, played.decisions["browser"].summary


@pytest.mark.parametrize("percent", [0, 20, 40])
def test_what_the_reserve_of_one_pool_keeps_from_running_is_given_to_the_next(percent):
    """Eight background tasks, two pools of up to eight workers each: room enough for all of them."""
    played = Played((pool(name="a", max_replicas=8), pool(name="b", max_replicas=8)), {"browser": 8})
    played.reserve_percent = percent

    played.play(1200)

    assert played.running("a") + played.running("b") == 8, {n: d.summary for n, d in played.decisions.items()}


@pytest.mark.parametrize(
    ("part", "waiting", "slots", "start"),
    [
        (Background(), 5, 10, 5),
        (Background(tasks=5, of=5, reserve_percent=0), 5, 1, 5),
        (Background(tasks=5, of=5, reserve_percent=50), 5, 8, 4),
        (Background(tasks=5, of=5, reserve_percent=50, leased=3), 2, 8, 1),
        (Background(tasks=5, of=9, reserve_percent=50, leased=4), 3, 8, 2),
        (Background(tasks=5, of=5, reserve_percent=100), 5, 8, 1),
        (Background(tasks=5, of=5, reserve_percent=50), 5, 0, 1),
        (Background(tasks=9, of=9, reserve_percent=50, leased=6), 3, 8, 0),
    ],
    ids=["none", "no reserve", "half", "some run", "interactive too", "all reserved", "no slots", "fleet shrank"],
)
def test_what_the_reserve_lets_start(part, waiting, slots, start):
    assert part.may_start(waiting, slots) == start
