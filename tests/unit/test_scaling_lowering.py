"""The second half of the scale-in protocol: the scale is lowered, answered or not, and somebody goes."""

import dataclasses

import pytest

from leadsman_operator.scaling.advance import next_deadline
from leadsman_operator.scaling.model import PodName
from leadsman_operator.scaling.scale_in import (
    RETRY_SECONDS,
    SETTLE_SECONDS,
    UNANSWERED_SECONDS,
    ClearCost,
    Fence,
    Idle,
    ReadScale,
    RecordWrongVictim,
    ScaleOutcome,
    ScaleRead,
    ScaleReplied,
    Unfence,
    Verifying,
)
from scaling_cases import workers
from scaling_cases.scene import Scene


def lowering_scene():
    """The workers are fenced, the controller has seen it, and the write is on its way."""
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.step()
    return scene


@pytest.mark.parametrize("outcome", [ScaleOutcome.CONFLICT, ScaleOutcome.FAILED])
def test_a_scale_that_could_not_be_lowered_lifts_everything(outcome):
    scene = lowering_scene()

    actions = scene.step(ScaleReplied(scene.state.operation.id, outcome))

    assert [type(action) for action in actions[:2]] == [Unfence, ClearCost]
    assert isinstance(scene.state, Idle)


def test_a_write_whose_answer_is_lost_is_recognised_by_what_it_did():
    scene = lowering_scene()
    scene.observation = dataclasses.replace(scene.observation, replicas=3)

    scene.step(wait=20)

    assert isinstance(scene.state, Verifying)


def test_a_write_that_never_happened_lifts_everything_once_the_api_server_says_so():
    scene = lowering_scene()
    scene.step(wait=20)
    scene.step()
    operation = scene.state.operation.id

    assert scene.step(wait=UNANSWERED_SECONDS - 1) == (Fence(operation, ("pod-0", "pod-1")),)
    read = ReadScale(operation)
    assert scene.step(wait=1) == (read,)
    assert scene.step() == ()
    assert next_deadline(scene.state, scene.now) == scene.now + RETRY_SECONDS
    assert scene.step(wait=RETRY_SECONDS) == (read,)

    actions = scene.step(ScaleRead(operation, 5))

    assert [type(action) for action in actions] == [Unfence, ClearCost]
    assert isinstance(scene.state, Idle)


def test_a_write_that_was_carried_out_late_keeps_the_fences():
    scene = lowering_scene()
    scene.step(wait=20)
    scene.step()
    assert ReadScale(scene.state.operation.id) in scene.step(wait=UNANSWERED_SECONDS)

    assert scene.step(ScaleRead(scene.state.operation.id, 3)) == ()
    assert scene.step(wait=1) == ()
    assert isinstance(scene.state, Verifying)


def lowered_scene():
    scene = lowering_scene()
    scene.step(scene.lowered())
    scene.observation = dataclasses.replace(scene.observation, replicas=3)
    scene.step()
    return scene


def test_a_busy_pod_that_went_in_a_victims_place_is_recorded_once_and_the_victim_lifted():
    scene = lowered_scene()
    scene.observation = dataclasses.replace(scene.observation, workers=workers(0, 0, 1, 0, 0))
    operation = scene.state.operation.id
    scene.pod("pod-2", terminating=True)

    assert scene.step() == (RecordWrongVictim(operation, PodName("pod-2", "browser-2"), 1),)
    assert scene.step() == ()
    scene.pod("pod-0", terminating=True)
    assert scene.step() == (Unfence(operation, ("pod-1",)), ClearCost((PodName("pod-1", "browser-1"),)))


def test_an_idle_pod_that_went_in_a_victims_place_is_no_mistake():
    scene = lowered_scene()
    scene.pod("pod-2", terminating=True)

    assert scene.step() == ()


def test_demand_that_returns_before_anybody_went_spares_the_victims():
    scene = lowered_scene()
    operation = scene.state.operation.id
    scene.target = 5
    scene.observation = dataclasses.replace(scene.observation, replicas=5)
    scene.replica_set = dataclasses.replace(scene.agreeing(), replicas=3)
    assert scene.step(wait=SETTLE_SECONDS) == ()  # the ReplicaSet has not been told yet

    scene.replica_set = scene.agreeing()
    assert scene.step() == ()
    assert next_deadline(scene.state, scene.now) == scene.now + SETTLE_SECONDS

    assert scene.step(wait=SETTLE_SECONDS) == (
        Unfence(operation, ("pod-0", "pod-1")),
        ClearCost((PodName("pod-0", "browser-0"), PodName("pod-1", "browser-1"))),
    )


def test_the_old_number_still_seen_after_the_write_is_not_a_new_one():
    scene = lowering_scene()

    assert scene.step(scene.lowered()) == ()
    assert scene.step() == ()
    assert isinstance(scene.state, Verifying)


def test_a_lower_number_that_was_never_seen_is_not_waited_for_for_ever():
    scene = lowering_scene()
    scene.step(scene.lowered())
    scene.target = 5

    operation = scene.state.operation.id

    assert scene.step(wait=29) == ()
    assert ReadScale(operation) in scene.step(wait=31)
    assert [type(action) for action in scene.step(ScaleRead(operation, 5))] == [Unfence, ClearCost]
    assert isinstance(scene.state, Idle)


def test_while_the_controller_has_not_chosen_the_fences_are_renewed_and_never_lifted():
    scene = lowered_scene()
    operation = scene.state.operation.id

    for _ in range(5):
        assert scene.step(wait=30) == (Fence(operation, ("pod-0", "pod-1")),)
        assert scene.step(scene.fenced()) == ()

    scene.pod("pod-0", terminating=True)
    scene.pod("pod-1", terminating=True)
    assert scene.step() == ()
    assert isinstance(scene.state, Idle)
