"""The clocks of broker, worker and producer are minutes apart: what travels are durations, so nothing changes."""

import time

import pytest

from broker_process import eventually
from leadsman import TaskState
from skewed_clock import skewed

AHEAD = (300.0, -300.0)
LEASE_SECONDS = 2.0


@pytest.fixture(params=AHEAD, ids=["broker ahead", "broker behind"])
def ahead(request):
    return request.param


@pytest.fixture
def broker_environment(ahead):
    return skewed(ahead)


@pytest.mark.usefixtures("brief_leases")
def test_leases_delays_and_times_to_live_last_as_long_as_was_asked_for(
    broker, client, start_worker, journal, gate, ahead
):
    start_worker(broker.url, capabilities=["gate", "echo"], slots=2, env=skewed(-ahead))
    held = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", held), what="the handler at work")
    delayed = client.submit("echo", "later", delay_seconds=1.0, ttl_seconds=60).id
    kept = client.submit("words", "nobody serves it", ttl_seconds=60).id
    gone = client.submit("words", "nor this", ttl_seconds=1).id
    assert abs(client.get(held).accepted_at - time.time() - ahead) < 60, "the broker's clock is wrong"

    view = client.wait(delayed, timeout_seconds=60)
    assert (view.state, view.result) == (TaskState.COMPLETED, "later")
    leased = next(entry.at for entry in view.history if entry.event == "leased")
    assert leased - view.accepted_at >= 1.0
    assert client.wait(gone, timeout_seconds=60).state is TaskState.EXPIRED
    assert client.get(kept).state is TaskState.READY
    time.sleep(LEASE_SECONDS * 2)  # the stimulus: a lease that is not renewed would be lost
    gate.open()

    view = client.wait(held, timeout_seconds=60)
    assert (view.state, view.attempts.deliveries, view.attempts.reclaims) == (TaskState.COMPLETED, 1, 0)


@pytest.mark.usefixtures("brief_leases")
def test_the_lease_of_a_dead_worker_ends_all_the_same(broker, client, start_worker, journal, gate, ahead):
    victim = start_worker(broker.url, capabilities=["gate"], env=skewed(-ahead))
    task = client.submit("gate", gate.path).id
    eventually(lambda: journal.entries("started", task), what="the handler at work")
    victim.kill()
    other = start_worker(broker.url, capabilities=["gate"], env=skewed(ahead * 2))
    eventually(lambda: len(journal.entries("started", task)) == 2, what="the handler at work elsewhere")
    gate.open()

    view = client.wait(task, timeout_seconds=60)

    assert (view.state, view.attempts.deliveries, view.attempts.reclaims) == (TaskState.COMPLETED, 2, 1)
    assert [entry.pid for entry in journal.entries("passed", task)] == [other.pid]
