"""The full lists that find what the watches lost: each kind in its turn, never all at once."""

import asyncio
import itertools
import random

from leadsman_operator.kube.resources import WATCHED
from leadsman_operator.relisting import FIRST_SECONDS, PERIOD_SECONDS, relist

HOUR = 3600.0
WINDOW = 45.0


def listed(virtual_time, scopes, seconds, *, answer=True):
    """Give each list with when it was asked for."""
    found = []

    async def list_one(*scope):
        found.append((asyncio.get_running_loop().time(), scope))
        return answer

    async def scenario():
        lists = asyncio.create_task(relist(list_one, scopes, rng=random.Random(3)))
        await asyncio.sleep(seconds)
        lists.cancel()
        await asyncio.gather(lists, return_exceptions=True)

    virtual_time.run(scenario())
    return found


EVERYWHERE = [(kind, None) for kind in WATCHED]


def test_soon_after_the_watches_began_everything_is_listed_once(virtual_time):
    assert listed(virtual_time, EVERYWHERE, FIRST_SECONDS + 1) == [(FIRST_SECONDS, scope) for scope in EVERYWHERE]


def test_each_kind_is_listed_within_every_period_and_a_quarter(virtual_time):
    found = listed(virtual_time, EVERYWHERE, HOUR)
    for scope in EVERYWHERE:
        times = [at for at, which in found if which == scope]
        pauses = [after - before for before, after in itertools.pairwise([*times, HOUR])]
        assert max(pauses) <= 1.25 * PERIOD_SECONDS


def test_no_short_time_sees_two_lists(virtual_time):
    times = [at for at, _ in listed(virtual_time, EVERYWHERE, HOUR) if at > FIRST_SECONDS]
    assert min(after - before for before, after in itertools.pairwise(times)) > WINDOW


def test_a_list_that_fails_comes_again_in_its_turn(virtual_time):
    assert len(listed(virtual_time, EVERYWHERE, HOUR, answer=False)) >= 5 * len(EVERYWHERE)
