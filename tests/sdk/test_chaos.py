"""Workers that are killed, stopped and told to go, a broker that is killed, a network that loses and repeats.

Every task ends; a recorded effect does not run again; the one that was given a task last decides what became of it.
"""

import logging
import os
import random
import time
from collections import Counter, defaultdict

import pytest

from leadsman import SyncClient, TaskState, TaskSubmit
from worker_process import UnreliableProxy

_log = logging.getLogger(__name__)
LONG = "LEADSMAN_LONG" in os.environ
TASKS, WORKERS = (2000, 8) if LONG else (200, 4)
SLOTS = 4
LEASE_SECONDS = 2.0
_LOOK_SECONDS = 0.05
STOPPED_SECONDS = 2 * LEASE_SECONDS
HANDLERS = ("default", "sync", "isolated")


class Chaos:
    """Does something bad every moment until all tasks have ended."""

    def __init__(self, broker, start, seed):
        self.random = random.Random(seed)
        self.broker = broker
        self.start = start
        self.workers = [start() for _ in range(WORKERS)]
        self.stopped = {}
        self.next_at = 10
        self.done = Counter()

    def step(self, completed):
        """Keep the fleet up; once in a while, measured in completed tasks, do something bad."""
        now = time.monotonic()
        for worker, until in list(self.stopped.items()):
            if now >= until:
                del self.stopped[worker]
                worker.resume()
        for number, worker in enumerate(self.workers):
            if not worker.alive:
                self.workers[number] = self.start()
        worker = self.random.choice(self.workers)
        if completed < self.next_at or worker in self.stopped or not worker.alive:
            return
        self.next_at = completed + self.random.randint(2, 12)
        what = self.random.choices(("kill", "stop", "terminate", "restart"), (4, 4, 3, 1))[0]
        self.done[what] += 1
        if what == "kill":
            worker.kill()
        elif what == "stop":
            worker.pause()
            self.stopped[worker] = now + STOPPED_SECONDS
        elif what == "terminate":
            worker.terminate()
        elif what == "restart":
            self.broker.kill()
            self.broker.start()

    def end(self):
        for worker in self.stopped:
            worker.resume()


@pytest.fixture
def sink(tmp_path):
    folder = tmp_path / "sink"
    folder.mkdir()
    return folder


@pytest.mark.usefixtures("own_broker")
@pytest.mark.long
@pytest.mark.timeout(3600 if LONG else 600)
def test_every_task_ends_once_whatever_happens(broker, start_worker, journal, sink):
    seed = int(os.environ.get("LEADSMAN_SEED", "7"))
    proxy = UnreliableProxy(broker.port, seed)
    dice = random.Random(seed)

    def start():
        return start_worker(
            proxy.url,
            capabilities=["chaos"],
            slots=SLOTS,
            connect=False,
            drain_seconds=2.0,
            env={"AGENTS_SINK": str(sink)},
        )

    with SyncClient(broker.url, unreachable_seconds=120) as client:
        submitted = client.submit_many(
            TaskSubmit(
                capability="chaos",
                name=HANDLERS[number % 10 // 4],
                payload=round(dice.uniform(0.05, 0.4), 2),
            )
            for number in range(TASKS)
        )
        ids = [one.id for one in submitted]
        chaos = Chaos(broker, start, seed)
        try:
            while (completed := _completed(client)) < TASKS:
                chaos.step(completed)
                time.sleep(_LOOK_SECONDS)
        finally:
            chaos.end()
            proxy.close()
        views = [client.get(task) for task in ids]
        queue = _queue(client)
    _log.warning("what was done to them: %s", dict(chaos.done | proxy.happened))
    assert Counter(view.state for view in views) == {TaskState.COMPLETED: TASKS}
    check(views, journal.entries(), sink, queue)


def _completed(client):
    """How many tasks are no longer on their way; counted so that a broker's restart does not matter."""
    queue = _queue(client)
    return TASKS - queue.ready - queue.delayed - queue.leased


def _queue(client):
    return next(one for one in client.stats().capabilities if one.name == "chaos")


def deliveries_without_a_result(views, queue):
    """How many the broker counted, in each task's counters and history and in the queue's totals alike."""
    ends = Counter(entry.event for view in views for entry in view.history)
    assert queue.completed_total == ends["completed"] == len(views)
    # A lease that ran out because the broker stood still costs its task no attempt.
    assert queue.reclaimed_total == ends["reclaimed"] >= sum(view.attempts.reclaims for view in views)
    assert queue.failed_total == ends["failed"] == sum(view.attempts.failures for view in views)
    assert ends["released"] == sum(view.attempts.releases for view in views)
    # Reclaimed, and then completed after all by an ack that came before anyone else had the task.
    late = sum((("reclaimed", view.epoch) in [(one.event, one.epoch) for one in view.history]) for view in views)
    return ends["reclaimed"] + ends["failed"] + ends["released"] + ends["undelivered"] - late


def check(views, entries, sink, queue):
    happened = defaultdict(list)
    for entry in entries:
        happened[entry.task].append((entry.event, entry.detail))
    executions = duplicates = never_ran = 0
    for view in views:
        events = happened[view.id]
        ran = [delivery for event, delivery in events if event == "ran"]
        executions += len(ran)
        duplicates += len(ran) - 1
        # No delivery runs twice, and one that the broker gave out and nobody ran is one whose end it knows.
        assert len(set(ran)) == len(ran)
        ended_without_result = {entry.epoch for entry in view.history if entry.event != "completed"}
        missing = set(range(1, view.epoch + 1)) - set(ran)
        never_ran += len(missing)
        assert missing <= ended_without_result
        assert set(ran) <= set(range(1, view.epoch + 1))
        # A delivery that began after the effect was recorded did not do it again.
        recorded = False
        late = set()
        for event, delivery in events:
            if event == "ran" and recorded:
                late.add(delivery)
            recorded = recorded or event == "recorded"
            assert not (event == "effect" and delivery in late), (view.id, events)
        # Who has the last word: the result is that of a delivery which the journal saw get that far.
        assert ("recorded", view.result["delivery"]) in events
        assert view.result["delivery"] == view.epoch, (view, events)
    assert sorted(path.name for path in sink.iterdir()) == sorted(view.id for view in views)
    said = deliveries_without_a_result(views, queue)
    _log.warning(
        "%d executions of %d tasks, %d of them duplicates; %d deliveries without a result, %d of which never ran",
        *(executions, len(views), duplicates, said, never_ran),
    )
    assert duplicates == said - never_ran
