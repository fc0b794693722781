"""The work queue: one look at a time per key, and no key waits for another's trouble."""

import asyncio
import itertools
import math
import random
from collections import Counter, defaultdict

import uvloop

from leadsman_operator.workqueue import FIRST_BACKOFF_SECONDS, JITTER, MAX_BACKOFF_SECONDS, Cause, WorkQueue


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
    looks.takes["busy"] = 2.0

    async def scenario():
        queue = WorkQueue(looks, at_once=1)
        queue.start()
        queue.add("busy")
        for _ in range(5):
            queue.add("a")
        await asyncio.sleep(5)
        await queue.stop()

    virtual_time.run(scenario())
    assert looks.at["a"] == [2.0]


def test_a_queue_that_was_not_started_remembers_no_key(virtual_time):
    """A process that stands by for months would know every pool there ever was."""
    looks = Looks()

    async def scenario():
        queue = WorkQueue(looks, resync_seconds=10)
        for number in range(100):
            queue.add(f"add {number}")
            queue.add_after(f"after {number}", 1.0)
        await asyncio.sleep(100)
        depth = queue.depth
        queue.start()
        await asyncio.sleep(100)
        await queue.stop()
        return depth, queue._queued, queue._timers

    assert virtual_time.run(scenario()) == (0, {}, {})
    assert not looks.at


def play_resync(virtual_time, keys, seconds, **again):
    """Look at all keys at once in the beginning, as a new leader does, and let nothing happen after that."""
    looks, causes = Looks(), Counter()

    async def look(key):
        await looks(key)
        return again.get(key, math.inf)

    async def scenario():
        queue = WorkQueue(look, resync_seconds=600, on_look=lambda c: causes.update([c]), rng=random.Random(5))
        queue.start()
        for key in keys:
            queue.add(key, Cause.EVERYTHING)
        await asyncio.sleep(seconds)
        await queue.stop()

    virtual_time.run(scenario())
    return looks.at, causes


def test_though_nothing_is_heard_every_key_is_looked_at_within_the_period(virtual_time):
    at, causes = play_resync(virtual_time, [f"pool-{n}" for n in range(200)], 7200)
    for times in at.values():
        assert max(after - before for before, after in itertools.pairwise([*times, 7200.0])) <= 600
    assert causes.keys() == {Cause.EVERYTHING, Cause.RESYNC}


def test_looks_for_nothings_sake_are_no_burst_at_any_time(virtual_time):
    at, _ = play_resync(virtual_time, [f"pool-{n}" for n in range(1000)], 7200)
    windows = Counter(int(time // 45) for times in at.values() for time in times if time)
    # Even would be 100 in each: one look at each of 1,000 in 450 s on average, and 45 s a window.
    assert max(windows.values()) < 250


def test_a_key_that_wants_a_look_sooner_gets_it_and_the_period_starts_anew(virtual_time):
    at, causes = play_resync(virtual_time, ["a"], 100, a=30.0)
    assert at["a"] == [0.0, 30.0, 60.0, 90.0]
    assert causes == {Cause.EVERYTHING: 1, Cause.ITSELF: 3}


def test_each_look_is_counted_with_what_asked_for_it_first(virtual_time):
    looks, causes = Looks(), []
    looks.fails["a"] = 1

    async def scenario():
        queue = WorkQueue(looks, at_once=1, on_look=causes.append)
        queue.start()
        queue.add("first", Cause.EVERYTHING)
        queue.add("a", Cause.BROKER)
        queue.add("a", Cause.CHANGE)
        await asyncio.sleep(1)
        queue.add_after("a", 1.0, Cause.CHANGE)
        await asyncio.sleep(2)
        await queue.stop()

    virtual_time.run(scenario())
    assert causes == [Cause.EVERYTHING, Cause.BROKER, Cause.RETRY, Cause.CHANGE]


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
