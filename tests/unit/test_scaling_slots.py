"""How many slots a queue asks for."""

import pytest

from leadsman_operator.scaling.demand import replicas_for, slot_rule
from scaling_cases import pool, work


def slots(leased: int, waiting: int, service: float | None, *, age: float | None = None, **changes: float) -> int:
    startup = changes.pop("startup", 30.0)
    leasable = int(changes.pop("leasable", waiting))
    return slot_rule(pool(**changes), service, age, startup).slots(leased, work(waiting, leasable=leasable))


@pytest.mark.parametrize(
    ("leased", "waiting", "service", "expected"),
    [
        (0, 0, None, 0),
        (0, 50, None, 50),
        (4, 6, None, 10),
        (0, 50, 3.0, 10),  # depth: five tasks a slot
        (0, 50, 12.0, 20),  # age: (60 s - 30 s) / 12 s = 2.5 tasks a slot
        (0, 50, 600.0, 50),  # longer than the target: every task its own slot
        (0, 1, 0.0, 1),
        (4, 0, 900.0, 4),
        (4, 0, 0.01, 4),  # never fewer than are in flight
        (10, 5, 3.0, 10),  # the busy slots answer for what waits
        (10, 41, 3.0, 11),
    ],
)
def test_slots_follow_depth_and_service_time(leased, waiting, service, expected):
    assert slots(leased, waiting, service) == expected


def test_never_more_slots_than_tasks_that_may_run():
    assert slots(2, 100, 600.0, leasable=3) == 5
    assert slots(0, 100, None, leasable=0) == 0


def test_a_long_start_leaves_less_time_but_never_less_than_half_of_the_target():
    assert slots(0, 60, 10.0, startup=5.0) == 12  # (60 - 5) / 10 = 5.5, at most the depth target of 5
    assert slots(0, 60, 10.0, startup=20.0) == 15  # (60 - 20) / 10 = 4
    assert slots(0, 60, 10.0, startup=3000.0) == 20  # (60 - 30) / 10 = 3


def test_an_overdue_queue_is_taken_up_within_one_start_or_service_time():
    assert slots(0, 100, 20.0, age=61.0, startup=30.0) == 67  # ceil(100 x 20 / 30)
    assert slots(10, 100, 60.0, age=61.0) == 110
    assert slots(0, 100, 60.0, age=60.0) == slots(0, 100, 60.0)


def test_being_overdue_never_asks_for_less():
    # Short tasks: catching up alone would need 34 slots, the depth target needs 200.
    assert slots(0, 1000, 1.0, age=61.0) == slots(0, 1000, 1.0) == 200


def test_numbers_that_divide_evenly_do_not_round_up():
    # In floating point 30 / 0.1 is 299.99999999999994, and 300 tasks would need two slots.
    assert slots(0, 300, 0.1, target_tasks_per_slot=100_000) == 1
    assert slots(0, 301, 0.1, target_tasks_per_slot=100_000) == 2


def test_workers_are_whole():
    assert [replicas_for(n, pool(slots_per_worker=4)) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_the_formula_shows_every_number():
    rule = slot_rule(pool(), 12.0, 75.0, 30.0)

    text = rule.formula(4, work(20))

    assert text == (
        "browser: k = max(1, min(5, 30 s / 12 s)) = 2.5; ceil((L 4 + W 20) / k)"
        " or, as the oldest is over 60 s, L 4 + ceil(20 x 12 s / 30 s) = 12;"
        " at most L 4 + Q 20 -> 12 slots"
    )
