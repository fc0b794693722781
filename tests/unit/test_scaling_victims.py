"""Who goes first, and who never."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.reasons import Reason
from leadsman_operator.scaling.census import census
from leadsman_operator.scaling.model import PodSample, WorkerSample
from leadsman_operator.scaling.victims import victims
from scaling_cases import observe, pods, workers


def uids(found):
    return [pod.uid for pod in found]


def test_the_longest_idle_go_first():
    idle = [
        dataclasses.replace(each, idle_seconds=seconds)
        for each, seconds in zip(workers(0, 0, 0), (5, 90, 40), strict=True)
    ]

    chosen = victims(observe(3, workers=tuple(idle)), 2)

    assert uids(chosen.pods) == ["pod-1", "pod-2"]


def test_a_worker_that_holds_a_lease_is_never_chosen():
    chosen = victims(observe(3, workers=workers(1, 0, 1)), 3)

    assert uids(chosen.pods) == ["pod-1"]


def test_when_all_are_busy_the_reason_says_so():
    chosen = victims(observe(2, workers=workers(1, 1)), 1)

    assert (chosen.pods, chosen.reason, chosen.note) == ((), Reason.WORKERS_BUSY, "all 2 workers hold tasks")


def test_pods_that_are_not_ready_go_first_and_the_others_of_them_are_guarded():
    """The controller deletes them before any ready pod, so none of them may take a task meanwhile."""
    mixed = (*pods(4)[:2], *pods(4, ready=False)[2:])

    chosen = victims(observe(4, pods=mixed, workers=workers(0, 0)), 1)

    assert uids(chosen.pods) == ["pod-2"]
    assert uids(chosen.guards) == ["pod-3"]


def test_a_busy_worker_that_is_not_ready_stops_everything():
    """Not ready ranks before everything: the controller would take exactly this one."""
    mixed = (*pods(2)[:1], *pods(2, ready=False)[1:])

    chosen = victims(observe(2, pods=mixed, workers=workers(0, 1)), 1)

    assert (chosen.pods, chosen.reason) == ((), Reason.WORKERS_BUSY)
    assert chosen.note == "browser-1 holds tasks and is not ready"


def test_no_choice_is_made_during_a_rollout_unless_all_go():
    rolling = observe(3, rollout_in_progress=True)

    assert victims(rolling, 1).reason is Reason.ROLLOUT_IN_PROGRESS
    assert len(victims(rolling, 3).pods) == 3


def test_silent_and_unregistered_workers_come_last():
    """Their readiness would not follow a fence, so the attempt would come to nothing."""
    silent = WorkerSample("pod-0", 1, ("browser",), idle_seconds=9999.0, live=False)
    live = workers(0, 0, idle_seconds=1.0)[1]

    chosen = victims(observe(3, workers=(silent, live)), 3)

    assert uids(chosen.pods) == ["pod-1", "pod-0", "pod-2"]


def test_pods_whose_readiness_did_not_follow_come_after_the_others():
    chosen = victims(observe(3), 1, avoid={"pod-0", "pod-1"})

    assert uids(chosen.pods) == ["pod-2"]


@pytest.mark.parametrize("earlier_first", [True, False])
def test_a_pod_whose_earlier_process_still_holds_a_lease_is_busy(earlier_first):
    lives = (dataclasses.replace(workers(1)[0], live=False), *workers(0))

    found = victims(observe(1, workers=lives if earlier_first else lives[::-1]), 1)

    assert found.reason is Reason.WORKERS_BUSY


def test_while_enough_are_stopping_with_tasks_nobody_else_is_taken():
    stopping = (*pods(3), *pods(4, terminating=True)[3:])
    found = observe(3, pods=stopping, workers=workers(0, 0, 0, 1))

    held = victims(found, 1, max_draining=1)
    allowed = victims(found, 1, max_draining=2)

    assert held.note == "1 workers that are stopping still hold tasks"
    assert len(allowed.pods) == 1


def test_a_census_counts_everyone_once():
    found = observe(
        6,
        pods=(
            *pods(3),
            PodSample("pod-3", "browser-3", ready=True, terminating=True),
            PodSample("pod-4", "browser-4", failing=True),
            PodSample("pod-5", "browser-5", unschedulable=True),
        ),
        workers=workers(1, 0, 0, 1),
    )

    counts = census(found)

    assert (counts.pods, counts.ready, counts.starting) == (5, 3, 3)
    assert (counts.failing, counts.unschedulable) == (1, 1)
    assert (counts.busy, counts.idle, counts.draining, counts.draining_with_leases) == (1, 2, 1, 1)
    assert not counts.mostly_failing


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_whatever_is_observed_only_present_lease_free_pods_are_chosen(found, count, max_draining):
    observation = observe(
        len(found),
        workers=workers(*(leases for leases, _, _ in found), slots=2),
        pods=tuple(
            PodSample(f"pod-{index}", f"browser-{index}", ready=ready, terminating=terminating)
            for index, (_, ready, terminating) in enumerate(found)
        ),
    )

    chosen = victims(observation, count, max_draining=max_draining)

    for pod in (*chosen.pods, *chosen.guards):
        leases, _, terminating = found[int(pod.uid.removeprefix("pod-"))]
        assert leases == 0
        assert not terminating
    assert len(chosen.pods) <= count
    assert bool(chosen.pods) != bool(chosen.reason)
