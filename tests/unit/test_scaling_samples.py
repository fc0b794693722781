"""From the wire to what decisions are made from."""

from leadsman.wire.leases import WorkerState
from leadsman.wire.stats import CapabilityStats, WorkerStats
from leadsman_operator.scaling.model import Background, CapabilitySample, WorkerSample
from leadsman_operator.scaling.samples import capability_sample, worker_sample

QUEUE = CapabilityStats(
    namespace="team",
    name="llm",
    ready=5,
    delayed=3,
    leased=2,
    dead=1,
    waiting=5,
    leasable=4,
    due_soon=2,
    oldest_age_seconds=7.5,
    service_seconds=1.25,
)
WORKER = WorkerStats(
    id="pod.1",
    pod_uid="pod",
    namespace="team",
    pool="llm",
    capabilities=["llm"],
    slots=4,
    leases=0,
    idle_seconds=20.0,
    last_heard_seconds=4.0,
    state=WorkerState.ACTIVE,
)


def test_a_queue_ages_between_two_samples():
    expected = CapabilitySample("llm", 5, 4, 2, 17.5, 1.25, background=Background(of=7))

    assert capability_sample(QUEUE, elapsed_seconds=10) == expected


def test_the_rules_of_a_queue_go_with_its_numbers():
    mixed = QUEUE.model_copy(update={"background_ready": 3, "background_leased": 1})

    found = capability_sample(mixed, leases_per_minute=30, reserve_percent=20)

    assert (found.leases_per_minute, found.background) == (
        30,
        Background(tasks=4, of=7, reserve_percent=20, leased=1),
    )


def test_an_empty_queue_has_no_age():
    empty = QUEUE.model_copy(update={"oldest_age_seconds": None})

    assert capability_sample(empty, elapsed_seconds=10).oldest_age_seconds is None


def test_an_idle_worker_grows_idler_and_a_busy_one_does_not():
    busy = WORKER.model_copy(update={"leases": 1, "leases_by_capability": {"llm": 1}, "idle_seconds": 0.0})

    assert worker_sample(WORKER, 30, elapsed_seconds=5).idle_seconds == 25
    assert worker_sample(busy, 30, elapsed_seconds=5).idle_seconds == 0


def test_a_worker_that_the_broker_does_not_mention_again_falls_silent():
    assert worker_sample(WORKER, 30, elapsed_seconds=26).live
    assert not worker_sample(WORKER, 30, elapsed_seconds=27).live


def test_what_the_broker_wants_of_a_worker_is_kept():
    def state(word):
        return worker_sample(WORKER.model_copy(update={"state": word}), 30)

    assert state(WorkerState.FENCED).fenced
    assert state(WorkerState.DRAINING).draining
    assert state(WorkerState.ACTIVE) == WorkerSample("pod", 4, ("llm",), idle_seconds=20.0, last_heard_seconds=4.0)
