"""The work queue: one look at a time per key, and no key waits for another's trouble."""

import asyncio
import itertools
import random
from collections import defaultdict

import uvloop

from leadsman_operator.workqueue import FIRST_BACKOFF_SECONDS, JITTER, MAX_BACKOFF_SECONDS, WorkQueue


class Looks:
    """Records when each key was looked at, and answers as told."""

    def __init__(self) -> None:
        self.at = defaultdict(list)
        self.running = defaultdict(int)
        self.most_at_once = defaultdict(int)
        self.takes = defaultdict(float)
        self.fails = defaultdict(int)
        self.again = {}

    async def __call__(self, key):
        self.at[key].append(asyncio.get_running_loop().time())
        self.running[key] += 1
        self.most_at_once[key] = max(self.most_at_once[key], self.running[key])
        try:
            await asyncio.sleep(self.takes[key])
        finally:
            self.running[key] -= 1
        if self.fails[key]:
            self.fails[key] -= 1
            raise ValueError("not this time")
        return self.again.pop(key, None)


def test_a_key_added_while_it_is_looked_at_is_looked_at_once_more(virtual_time):
    looks = Looks()
    looks.takes["a"] = 1.0

    async def scenario():
        queue = WorkQueue(looks)
        queue.start()
        queue.add("a")
        await asyncio.sleep(0.5)
        for _ in range(10):
            queue.add("a")
        await asyncio.sleep(10)
        await queue.stop()

    virtual_time.run(scenario())
    assert looks.at["a"] == [0.0, 1.0]
    assert looks.most_at_once["a"] == 1


def test_keys_added_many_times_before_their_look_are_looked_at_once(virtual_time):
    looks = Looks()

    async def scenario():
        queue = WorkQueue(looks)
        for _ in range(5):
            queue.add("a")
        queue.start()
        await asyncio.sleep(1)
        await queue.stop()

    virtual_time.run(scenario())
    assert looks.at["a"] == [0.0]


def test_a_failing_key_is_tried_again_after_growing_pauses_with_jitter(virtual_time):
    looks = Looks()
    looks.fails["bad"] = 12

    async def scenario():
        queue = WorkQueue(looks, rng=random.Random(7))
        queue.start()
        queue.add("bad")
        await asyncio.sleep(600)
        await queue.stop()

    virtual_time.run(scenario())
    times = looks.at["bad"]
    assert len(times) == 13
    pauses = [after - before for before, after in itertools.pairwise(times)]
    for tries, pause in enumerate(pauses):
        least = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2**tries)
        assert least - 1e-6 <= pause <= least * (1 + JITTER) + 1e-6
    longest = [pause for pause in pauses if pause >= MAX_BACKOFF_SECONDS]
    assert len({round(pause, 3) for pause in longest}) == len(longest) > 2


def test_keys_that_failed_together_do_not_come_back_together(virtual_time):
    looks = Looks()
    keys = [f"pool-{number}" for number in range(100)]
    looks.fails.update(dict.fromkeys(keys, 8))

    async def scenario():
        queue = WorkQueue(looks, rng=random.Random(7), at_once=100)
        queue.start()
        for key in keys:
            queue.add(key)
        await asyncio.sleep(600)
        await queue.stop()

    virtual_time.run(scenario())
    last = sorted(looks.at[key][-1] for key in keys)
    assert all(len(looks.at[key]) == 9 for key in keys)
    assert last[-1] - last[0] > 5
    assert max(sum(at <= moment < at + 1 for moment in last) for at in last) < 30


def test_success_resets_the_pause(virtual_time):
    looks = Looks()
    looks.fails["a"] = 5

    async def scenario():
        queue = WorkQueue(looks)
        queue.start()
        queue.add("a")
        await asyncio.sleep(60)
        first = len(looks.at["a"])
        looks.fails["a"] = 1
        queue.add("a")
        await asyncio.sleep(1)
        await queue.stop()
        return first

    first = virtual_time.run(scenario())
    last, before = looks.at["a"][-1], looks.at["a"][first]
    assert first == 6
    assert last - before <= FIRST_BACKOFF_SECONDS * (1 + JITTER) + 1e-6


def test_slow_and_failing_keys_do_not_delay_the_others(virtual_time):
    looks = Looks()
    for n in range(60):
        looks.takes[f"slow-{n}"] = 30.0
        looks.fails[f"bad-{n}"] = 10_000

    async def scenario():
        queue = WorkQueue(looks, at_once=128)
        queue.start()
        for n in range(60):
            queue.add(f"slow-{n}")
            queue.add(f"bad-{n}")
        await asyncio.sleep(5)
        for n in range(100):
            queue.add(f"good-{n}")
        await asyncio.sleep(0.001)
        await queue.stop()

    virtual_time.run(scenario())
    assert all(looks.at[f"good-{n}"] == [5.0] for n in range(100))


def test_a_look_that_hangs_is_a_failure_of_its_key(virtual_time):
    looks = Looks()
    looks.takes["hung"] = 1e6
    failed = []

    async def scenario():
        queue = WorkQueue(looks, look_seconds=20, on_failure=lambda key, error: failed.append((key, type(error))))
        queue.start()
        queue.add("hung")
        await asyncio.sleep(21)
        await queue.stop()

    virtual_time.run(scenario())
    assert failed == [("hung", TimeoutError)]
    assert len(looks.at["hung"]) == 2


def test_the_earlier_of_two_timers_stands_and_an_add_replaces_both(virtual_time):
    looks = Looks()

    async def scenario():
        queue = WorkQueue(looks)
        queue.start()
        queue.add_after("a", 50)
        queue.add_after("a", 10)
        queue.add_after("a", 30)
        queue.add_after("b", 40)
        queue.add("b")
        await asyncio.sleep(100)
        await queue.stop()

    virtual_time.run(scenario())
    assert looks.at == {"a": [10.0], "b": [0.0]}


def test_a_look_asks_for_its_own_next_look(virtual_time):
    looks = Looks()
    looks.again["a"] = 7.0

    async def scenario():
        queue = WorkQueue(looks)
        queue.start()
        queue.add("a")
        await asyncio.sleep(60)
        await queue.stop()

    virtual_time.run(scenario())
    assert looks.at["a"] == [0.0, 7.0]


def test_a_key_that_wants_no_further_look_leaves_nothing_behind(virtual_time):
    looks = Looks()
    looks.fails["gone"] = 3

    async def scenario():
        queue = WorkQueue(looks)
        queue.start()
        queue.add("gone")
        await asyncio.sleep(100)
        await queue.stop()
        return queue

    queue = virtual_time.run(scenario())
    assert len(looks.at["gone"]) == 4
    remembered = (queue._timers, queue._failures, queue._again, queue._queued, queue._running, queue._waiting)
    assert not any(remembered)


def test_stop_ends_what_runs_and_takes_nothing_more(virtual_time):
    looks = Looks()
    looks.takes["a"] = 1e6

    async def scenario():
        queue = WorkQueue(looks, look_seconds=1e7)
        queue.start()
        queue.add("a")
        await asyncio.sleep(1)
        await queue.stop()
        queue.add("b")
        await asyncio.sleep(1)

    virtual_time.run(scenario())
    assert looks.running["a"] == 0
    assert "b" not in looks.at


def test_a_look_due_now_may_be_asked_for_again_under_the_loop_that_production_uses():
    looks = Looks()

    async def scenario():
        queue = WorkQueue(looks)
        queue.start()
        for _ in range(2):
            queue.add_after("a", 0.0)
        await asyncio.sleep(0.05)
        await queue.stop()

    uvloop.run(scenario())
    assert len(looks.at["a"]) == 1
