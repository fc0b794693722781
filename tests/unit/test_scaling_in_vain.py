"""Fleets whose workers cannot be or cannot help, while tasks wait: they neither grow nor come and go."""

from dataclasses import replace

import pytest

from leadsman_operator.reconcile.conditions import Found, conditions
from scaling_cases import pool
from scaling_cases.played import Played

TWO_HOURS = 7200


def reasons(played, name="browser"):
    """The reasons of all conditions of a pool, as its last look found them."""
    spec = next(spec for spec in played.specs if spec.name == name)
    found = Found(spec, played.observed[name], played.decisions[name])
    return {verdict.reason.value for verdict in conditions(found)}


@pytest.mark.parametrize("good", [0, 3, 9])
def test_pods_that_cannot_start_stay_and_are_not_made_again_and_again(good):
    played = Played((pool(),), {"browser": 40}, fails=lambda _, number: number >= good)

    played.play(TWO_HOURS)

    assert [(move.before, move.after) for move in played.moves] == [(0, 20)]
    assert played.decisions["browser"].reason.value == "WorkersFailing"
    assert "WorkersFailing" in reasons(played)


@pytest.mark.parametrize("allowed", [0, 3])
def test_a_fleet_that_a_quota_keeps_small_does_not_ask_for_it_again_and_again(allowed):
    played = Played((pool(),), {"browser": 40}, quota=allowed)

    played.play(TWO_HOURS)

    assert [(move.before, move.after) for move in played.moves] == [(0, 20)]
    assert played.decisions["browser"].reason.value == "QuotaExceeded"
    assert played.running("browser") == allowed


def test_pods_that_cannot_start_go_when_the_queue_is_empty():
    played = Played((pool(),), {"browser": 40}, fails=lambda *_: True)
    played.play(1000)
    played.waiting["browser"] = 0

    played.play(1000)

    assert [(move.before, move.after) for move in played.moves] == [(0, 20), (20, 0)]


def test_a_fleet_grows_on_when_its_pods_can_start_again():
    broken = [True]
    played = Played((pool(),), {"browser": 40}, fails=lambda *_: broken[0])
    played.play(1000)
    broken[0] = False

    played.play(100)

    assert played.running("browser") == 20


def test_what_a_pool_that_fails_cannot_do_is_done_by_the_other_and_the_first_is_not_tried_again_and_again():
    """Tasks are given in the order of the pools' names: at zero, the one that fails would have them first."""
    fleets = pool(name="a"), pool(name="b", max_replicas=5)
    played = Played(fleets, {"browser": 40}, fails=lambda name, _: name == "a")

    played.play(TWO_HOURS)

    assert [(move.pool, move.before, move.after) for move in played.moves if move.pool == "a"] == [("a", 0, 20)]
    assert played.running("b") == 5


def test_workers_without_a_handler_go_but_for_one_that_shows_it():
    played = Played((pool(capabilities=("a", "b")),), {"a": 0, "b": 30}, handles=("a",))

    played.play(TWO_HOURS)

    assert [(move.before, move.after) for move in played.moves] == [(0, 20), (20, 1)]
    assert played.decisions["browser"].reason.value == "CapabilityNotServed"
    assert "no worker takes b" in played.decisions["browser"].summary
    assert "CapabilityNotServed" in reasons(played)


def test_that_a_handler_is_missing_is_told_while_the_workers_are_busy_with_something_else():
    played = Played((pool(capabilities=("a", "b")),), {"a": 10, "b": 30}, handles=("a",))

    played.play(100)

    assert played.running("browser") == 10
    assert "CapabilityNotServed" in reasons(played)


def test_the_one_that_shows_it_goes_when_nothing_waits_there():
    played = Played((pool(capabilities=("a", "b")),), {"a": 0, "b": 30}, handles=("a",))
    played.play(1000)
    played.waiting["b"] = 0

    played.play(1000)

    assert played.moves[-1][1:3] == (1, 0)
    assert "CapabilityNotServed" not in reasons(played)


def test_that_a_handler_is_missing_is_no_news_with_every_task_that_comes_and_goes():
    """Another pool takes the tasks as they come; a condition that followed them would be written as often."""
    fleets = pool(name="a", capabilities=("a", "b")), pool(name="b", capabilities=("b",))
    played = Played(fleets, {"a": 5, "b": 5}, fails=lambda name, _: name == "b", handles=("a",))
    played.play(100)
    told = set()

    for waiting in (0, 1, 0, 3):
        played.waiting["b"] = waiting
        played.play(1)
        told.add("CapabilityNotServed" in reasons(played, "a"))

    assert told == {True}


def test_it_is_not_told_while_a_rollout_brings_the_handler():
    played = Played((pool(capabilities=("a", "b")),), {"a": 5, "b": 30}, handles=("a",))
    played.play(100)
    played.observed["browser"] = replace(played.observed["browser"], rollout_in_progress=True)

    assert "CapabilityNotServed" not in reasons(played)


@pytest.mark.parametrize(("trouble", "left"), [("fails", 4), ("quota", 4), ("handles", 1)])
def test_a_lower_maximum_holds_for_them_as_well(trouble, left):
    about = {"fails": {"fails": lambda *_: True}, "quota": {"quota": 2}, "handles": {"handles": ()}}[trouble]
    played = Played((pool(),), {"browser": 40}, **about)
    played.play(100)
    played.specs = (pool(max_replicas=4),)

    played.play(1000)

    assert played.moves[-1].after == left


def test_workers_with_the_handler_bring_the_fleet_back():
    played = Played((pool(capabilities=("a", "b")),), {"a": 0, "b": 30}, handles=("a",))
    played.play(1000)
    played.handles = ("a", "b")

    played.play(100)

    assert played.running("browser") == 20
