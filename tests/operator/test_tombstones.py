"""What is known to be gone is known for as long as an old list may say otherwise, and then costs nothing."""

from leadsman_operator.kube.tombstones import LASTS_SECONDS, Tombstones


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def at(clock, gone, seconds, uid):
    clock.now = seconds
    gone.add(uid)


def test_a_deletion_is_remembered_for_its_time_whatever_follows():
    clock = Clock()
    gone = Tombstones(clock)
    for second in range(int(LASTS_SECONDS)):
        at(clock, gone, float(second), f"uid-{second}")
        assert "uid-0" in gone
    assert len(gone) == LASTS_SECONDS


def test_it_is_forgotten_after_twice_that_when_others_follow():
    clock = Clock()
    gone = Tombstones(clock)
    at(clock, gone, 0.0, "first")
    at(clock, gone, LASTS_SECONDS, "second")
    at(clock, gone, 2 * LASTS_SECONDS, "third")
    assert ["first" in gone, "second" in gone, "third" in gone] == [False, True, True]


def test_after_a_long_silence_nothing_older_is_kept():
    clock = Clock()
    gone = Tombstones(clock)
    at(clock, gone, 0.0, "first")
    at(clock, gone, 2 * LASTS_SECONDS, "later")
    assert len(gone) == 1


def test_many_deletions_at_once_are_bounded_and_the_last_twenty_thousand_stay():
    gone = Tombstones(Clock())
    for number in range(100_000):
        gone.add(f"uid-{number}")
    assert len(gone) <= 40_000
    assert all(f"uid-{number}" in gone for number in range(80_000, 100_000))
