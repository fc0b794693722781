"""The demo's closing numbers: counted from what was seen, and a broken promise is noticed."""

import json
from dataclasses import replace

import pytest
from demo.outcome import Outcome, ReplicaChange, enqueue_to_scale_ms, lost, peak

KEPT = Outcome(
    submitted=56,
    completed=56,
    lost=0,
    reclaimed=1,
    busy_workers_evicted=0,
    peak_replicas=7,
    final_replicas=0,
    enqueue_to_scale_ms=120,
    seconds=61.5,
)


def test_a_run_that_keeps_every_promise_has_nothing_to_say():
    assert KEPT.broken_promises() == []


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"completed": 55}, "55 of 56"),
        ({"lost": 1}, "1 tasks were lost"),
        ({"reclaimed": 0}, "never reclaimed"),
        ({"busy_workers_evicted": 1}, "1 busy workers"),
        ({"peak_replicas": 1}, "no more than 1 worker"),
        ({"final_replicas": 2}, "2 workers were left"),
        ({"enqueue_to_scale_ms": None}, "never scaled out"),
    ],
)
def test_each_broken_promise_is_said_alone(broken, words):
    told = replace(KEPT, **broken).broken_promises()
    assert len(told) == 1
    assert words in told[0]


def test_the_closing_line_is_one_json_object_with_the_agreed_fields():
    line = KEPT.json_line()
    assert "\n" not in line
    assert list(json.loads(line)) == [
        "submitted",
        "completed",
        "lost",
        "reclaimed",
        "busy_workers_evicted",
        "peak_replicas",
        "final_replicas",
        "enqueue_to_scale_ms",
        "seconds",
    ]


def test_the_peak_is_the_sum_of_all_pools_at_one_moment():
    apart = [
        ReplicaChange("a", 4, 1.0),
        ReplicaChange("a", 0, 2.0),
        ReplicaChange("b", 3, 3.0),
        ReplicaChange("b", 0, 4.0),
    ]
    together = [ReplicaChange("a", 4, 1.0), ReplicaChange("b", 3, 1.5), ReplicaChange("a", 0, 2.0)]
    assert peak(apart) == 4
    assert peak(together) == 7


def test_the_reaction_is_that_of_the_slowest_pool_to_its_own_highest_number():
    changes = [
        ReplicaChange("a", 0, 0.0),
        ReplicaChange("b", 0, 0.0),
        ReplicaChange("a", 4, 0.1),
        ReplicaChange("b", 1, 0.05),
        ReplicaChange("b", 3, 0.4),
        ReplicaChange("b", 0, 20.0),
    ]
    assert enqueue_to_scale_ms(changes, ["a", "b"]) == 400


def test_a_pool_that_never_scaled_gives_no_reaction_rather_than_a_good_one():
    changes = [ReplicaChange("a", 4, 0.1), ReplicaChange("b", 0, 0.0)]
    assert enqueue_to_scale_ms(changes, ["a", "b"]) is None


def test_a_task_that_the_broker_forgot_or_that_ended_unfinished_is_lost():
    states = {"1": "completed", "2": "leased", "3": "dead", "4": None, "5": "expired"}
    assert lost(states) == 3
