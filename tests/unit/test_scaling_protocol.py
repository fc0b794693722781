"""The scale-in protocol step by step: what it asks for, what it waits for, and how it ends."""

import dataclasses

import pytest

from leadsman_operator.scaling.advance import next_deadline
from leadsman_operator.scaling.model import PodName, Signal
from leadsman_operator.scaling.scale_in import (
    EVIDENCE_DEADLINE_SECONDS,
    MISSING_SECONDS,
    RETRY_SECONDS,
    SETTLE_SECONDS,
    VICTIM_DELETION_COST,
    ClearCost,
    Evidence,
    Fence,
    FenceReplied,
    Fencing,
    Idle,
    Lowering,
    LowerScale,
    SetDeletionCost,
    Unfence,
    Verifying,
)
from scaling_cases import pods, workers
from scaling_cases.scene import Scene


def test_the_whole_way():
    scene = Scene()

    (fence,) = scene.step()
    assert isinstance(fence, Fence)
    assert fence.pod_uids == ("pod-0", "pod-1")

    assert scene.step(scene.fenced()) == (
        SetDeletionCost((PodName("pod-0", "browser-0"), PodName("pod-1", "browser-1"))),
    )
    assert isinstance(scene.state, Evidence)

    scene.turned()
    assert scene.step() == (LowerScale(fence.operation, 5, 3, "7"),)

    assert scene.step(scene.lowered()) == ()
    scene.observation = dataclasses.replace(scene.observation, replicas=3)
    scene.pod("pod-0", terminating=True)
    assert scene.step() == ()
    assert isinstance(scene.state, Verifying)

    scene.pod("pod-1", terminating=True)
    assert scene.step() == ()
    assert isinstance(scene.state, Idle)


def test_nothing_is_lowered_before_the_controller_has_seen_the_pods_turn():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    before = scene.replica_set
    scene.turned()
    scene.replica_set = before

    assert scene.step(wait=10) == ()
    assert isinstance(scene.state, Evidence)


@pytest.mark.parametrize(
    "unlike",
    [
        {"observed": False},
        {"replicas": 6},
        {"current_replicas": 4},
        {"ready_replicas": 2},
        {"ready_replicas": 4},
    ],
)
def test_a_status_that_says_anything_else_is_no_evidence(unlike):
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.replica_set = dataclasses.replace(scene.replica_set, **unlike)

    assert not any(isinstance(action, LowerScale) for action in scene.step())


def test_without_evidence_everything_is_lifted_and_those_that_did_not_follow_are_avoided():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    operation = scene.state.operation.id
    scene.pod("pod-0", ready=False, deletion_cost=VICTIM_DELETION_COST)

    actions = scene.step(wait=EVIDENCE_DEADLINE_SECONDS)

    assert actions == (
        Unfence(operation, ("pod-0", "pod-1")),
        ClearCost((PodName("pod-0", "browser-0"), PodName("pod-1", "browser-1"))),
    )
    assert isinstance(scene.state, Idle)
    assert scene.state.avoid == {"pod-1"}
    assert scene.state.not_before == scene.now + RETRY_SECONDS


def test_failures_in_a_row_are_retried_later_and_later():
    waits, scene = [], Scene()
    for _ in range(8):
        scene.step(wait=SETTLE_SECONDS)
        assert isinstance(scene.state, Fencing)
        scene.step(wait=10)  # the broker does not answer
        waits.append(scene.state.not_before - scene.now)
        scene.step(wait=waits[-1])

    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]


def test_demand_that_returns_before_the_scale_is_lowered_ends_it_at_once():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    operation = scene.state.operation.id
    scene.target = 5

    assert [type(action) for action in scene.step()] == [Unfence, ClearCost]
    assert isinstance(scene.state, Idle)
    assert scene.state.not_before == scene.now
    assert operation == "op-5002.0"


def test_demand_that_returns_before_the_broker_has_fenced_does_not_wait_for_its_answer():
    scene = Scene()
    (fence,) = scene.step()
    scene.target = 5

    assert Unfence(fence.operation, fence.pod_uids) in scene.step()
    assert isinstance(scene.state, Idle)


def test_a_reply_that_comes_after_the_end_is_answered_with_an_unfence():
    scene = Scene()
    scene.step()
    late = scene.fenced()
    scene.target = 5
    scene.step()

    actions = scene.step(late)

    assert Unfence(late.operation, ("pod-0", "pod-1")) in actions


def test_when_a_little_demand_returns_fewer_are_taken():
    scene = Scene(target=1)
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.target = 3

    (lower,) = scene.step()
    assert (lower.from_replicas, lower.to_replicas) == (5, 3)


def test_workers_that_took_a_task_first_are_left_out():
    scene = Scene()
    scene.step()

    (cost,) = scene.step(scene.fenced("pod-1"))
    assert [pod.uid for pod in cost.pods] == ["pod-1"]
    scene.turned()

    (lower,) = scene.step()
    assert lower.to_replicas == 4


def test_when_all_took_a_task_first_it_is_soon_tried_again():
    scene = Scene()
    scene.step()

    scene.step(FenceReplied(scene.state.operation.id, "epoch-1", frozenset()))

    assert isinstance(scene.state, Idle)
    assert scene.state.not_before == scene.now + 1
    assert scene.state.failures == 0


def test_a_pod_that_changes_meanwhile_makes_the_count_ambiguous():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.pod("pod-4", ready=False, ready_changed="later")

    scene.step()

    assert isinstance(scene.state, Idle)
    assert scene.state.waits_for == "other pods of the pool changed meanwhile"


def test_a_pod_that_failed_a_probe_and_recovered_unseen_makes_it_ambiguous_too():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.pod("pod-4", ready=True, ready_changed="later")

    scene.step()

    assert isinstance(scene.state, Idle)


def test_nothing_starts_while_pods_have_just_changed():
    scene = Scene()
    scene.pod("pod-4", ready_changed="later")

    assert scene.step() == ()
    assert scene.step(wait=SETTLE_SECONDS / 2) == ()
    assert next_deadline(scene.state, scene.now) == scene.now + SETTLE_SECONDS / 2
    assert isinstance(scene.step(wait=SETTLE_SECONDS / 2)[0], Fence)


def test_nothing_starts_while_the_status_disagrees_with_the_pods():
    scene = Scene()
    scene.replica_set = dataclasses.replace(scene.replica_set, ready_replicas=4)

    assert scene.step() == ()
    assert scene.state.waits_for == "the ReplicaSet's status does not agree with its pods yet"


def test_nothing_starts_without_a_single_replica_set():
    scene = Scene()
    scene.replica_set = None

    assert scene.step() == ()


def test_another_broker_epoch_ends_it():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.observation = dataclasses.replace(
        scene.observation, signal=Signal(epoch="epoch-2", age_seconds=0.0, unbroken_since=0.0)
    )

    assert [type(action) for action in scene.step()] == [Unfence, ClearCost]


def test_a_fence_from_another_epoch_ends_it():
    scene = Scene()
    scene.step()

    scene.step(FenceReplied(scene.state.operation.id, "epoch-2", frozenset({"pod-0", "pod-1"})))

    assert isinstance(scene.state, Idle)


def test_to_zero_nobody_chooses_so_no_evidence_is_needed():
    scene = Scene(size=2, target=0)

    (fence,) = scene.step()
    assert set(fence.pod_uids) == {"pod-0", "pod-1"}
    assert scene.step(scene.fenced()) == (LowerScale(fence.operation, 2, 0, "7"),)


def test_to_zero_only_if_every_worker_could_be_fenced():
    scene = Scene(size=2, target=0)
    scene.step()

    actions = scene.step(scene.fenced("pod-1"))

    assert not any(isinstance(action, LowerScale) for action in actions)
    assert isinstance(scene.state, Idle)


def test_to_zero_waits_for_pods_that_may_exist_unseen():
    scene = Scene(size=3, target=0)
    scene.observation = dataclasses.replace(scene.observation, pods=pods(2))
    scene.replica_set = scene.agreeing()
    scene.step()

    assert scene.step(wait=SETTLE_SECONDS) == ()
    assert scene.state.waits_for == "1 pods are not there yet"
    assert isinstance(scene.step(wait=MISSING_SECONDS)[0], Fence)


def test_pods_that_were_never_made_are_given_up_without_a_victim():
    """A quota allows three of eight; two are wanted less than the eight, none less than the three."""
    scene = Scene(size=8, target=4)
    scene.observation = dataclasses.replace(scene.observation, pods=pods(3), workers=workers(1, 1, 1))
    scene.replica_set = scene.agreeing()
    scene.step()

    (lower,) = scene.step(wait=MISSING_SECONDS)

    assert isinstance(lower, LowerScale)
    assert (lower.from_replicas, lower.to_replicas) == (8, 4)
    assert isinstance(scene.state, Lowering)


def test_pods_that_are_not_ready_are_fenced_along_and_spared():
    scene = Scene(size=4, target=3)
    scene.pod("pod-2", ready=False)
    scene.pod("pod-3", ready=False)
    scene.replica_set = scene.agreeing()
    scene.step()

    (fence,) = scene.step(wait=SETTLE_SECONDS)
    assert fence.pod_uids == ("pod-2", "pod-3")
    scene.step(scene.fenced())
    scene.pod("pod-2", deletion_cost=VICTIM_DELETION_COST)
    (lower,) = scene.step()
    assert lower.to_replicas == 3
    scene.step(scene.lowered())
    scene.observation = dataclasses.replace(scene.observation, replicas=3)
    scene.pod("pod-2", terminating=True)

    assert scene.step() == (Unfence(fence.operation, ("pod-3",)),)


def test_a_guard_that_took_a_task_ends_it():
    scene = Scene(size=4, target=3)
    scene.pod("pod-2", ready=False)
    scene.pod("pod-3", ready=False)
    scene.replica_set = scene.agreeing()
    scene.step()
    scene.step(wait=SETTLE_SECONDS)

    scene.step(scene.fenced("pod-2"))

    assert isinstance(scene.state, Idle)


def test_strays_of_a_dead_leader_are_lifted_before_anything_starts():
    scene = Scene()
    scene.fences = {"pod-3": "somebody-elses", "a-pod-of-another-pool": "other"}
    scene.pod("pod-4", deletion_cost=VICTIM_DELETION_COST)

    actions = scene.step()

    assert actions == (Unfence("somebody-elses", ("pod-3",)), ClearCost((PodName("pod-4", "browser-4"),)))
    assert scene.step() == ()  # asked; not again at once
    assert scene.step(wait=RETRY_SECONDS) == actions
    scene.fences = {}
    scene.pod("pod-4", deletion_cost=0)
    assert isinstance(scene.step()[0], Fence)


def test_strays_stay_fenced_while_the_controller_still_has_to_choose():
    """The last leader lowered the scale and died; its victims may take no task until somebody has gone."""
    scene = Scene(target=3)
    scene.observation = dataclasses.replace(scene.observation, replicas=3)
    scene.fences = {"pod-0": "of-the-dead", "pod-1": "of-the-dead"}
    scene.replica_set = dataclasses.replace(scene.replica_set, replicas=3)

    assert scene.step() == ()

    scene.pod("pod-0", terminating=True)
    scene.pod("pod-3", terminating=True)
    assert scene.step() == (Unfence("of-the-dead", ("pod-1",)),)


def test_costs_that_were_not_written_are_asked_for_again():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.pod("pod-0", ready=False, deletion_cost=VICTIM_DELETION_COST)
    scene.pod("pod-1", ready=False)

    assert scene.step(wait=RETRY_SECONDS) == (SetDeletionCost((PodName("pod-1", "browser-1"),)),)


def test_a_worker_being_busy_is_said_in_words():
    scene = Scene(leases=[1, 1, 1, 1, 1])

    assert scene.step() == ()
    assert scene.state.waits_for == "all 5 workers hold tasks"


def test_an_idle_protocol_without_anything_to_do_needs_no_timer():
    scene = Scene(target=5)
    scene.step(wait=MISSING_SECONDS)

    assert next_deadline(scene.state, scene.now) is None
