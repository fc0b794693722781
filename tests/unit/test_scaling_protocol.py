"""The scale-in protocol step by step: what it asks for, what it waits for, and how it ends."""

import dataclasses

import pytest

from leadsman.reasons import Reason
from leadsman_operator.scaling.advance import advance, next_deadline
from leadsman_operator.scaling.model import Action, Decision, PodName, Signal
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
    RecordWrongVictim,
    ReplicaSetSample,
    ScaleInView,
    ScaleOutcome,
    ScaleReplied,
    SetDeletionCost,
    Unfence,
    Verifying,
)
from scaling_cases import observe, pods, pool, workers

NOW = 5000.0


def decision(current, target):
    return Decision(
        action=Action.SCALE_IN if target < current else Action.SCALE_OUT if target > current else Action.HOLD,
        current=current,
        replicas=target,
        recommended=target,
        slots=target,
        reason=Reason.WORKERS_NOT_NEEDED,
        summary="",
    )


class Scene:
    """A pool of five idle workers of which two are to go; the caller changes what is seen between the steps."""

    def __init__(self, size=5, target=3, leases=None):
        self.now = NOW
        self.target = target
        self.observation = observe(size, workers=workers(*(leases or [0] * size)))
        self.fences = {}
        self.replica_set = self.agreeing()
        self.state = Idle()
        self.step()
        self.now += SETTLE_SECONDS

    def agreeing(self):
        present = [pod for pod in self.observation.pods if not pod.terminating]
        return ReplicaSetSample(
            self.observation.replicas,
            observed=True,
            current_replicas=len(present),
            ready_replicas=sum(p.ready for p in present),
        )

    def step(self, *events, wait=0.0):
        self.now += wait
        view = ScaleInView(
            spec=pool(),
            observation=self.observation,
            decision=decision(self.observation.replicas, self.target),
            operation=f"op-{self.now:.1f}",
            resource_version="7",
            fences=self.fences,
            replica_set=self.replica_set,
        )
        self.state, actions = advance(self.state, view, events, self.now)
        return actions

    def pod(self, uid, **changes):
        self.observation = dataclasses.replace(
            self.observation,
            pods=tuple(
                dataclasses.replace(pod, **changes) if pod.uid == uid else pod for pod in self.observation.pods
            ),
        )

    def fenced(self, *uids):
        """Fence the asked ones, or only these."""
        operation = self.state.operation.id
        done = frozenset(uids or self.state.operation.fenced)
        self.fences.update(dict.fromkeys(done, operation))
        return FenceReplied(operation, "epoch-1", done)

    def turned(self):
        """The fenced pods are marked and not ready, and the controller has seen it."""
        for uid in self.state.operation.fenced:
            self.pod(uid, ready=False, deletion_cost=VICTIM_DELETION_COST)
        self.replica_set = self.agreeing()

    def lowered(self):
        return ScaleReplied(self.state.operation.id, ScaleOutcome.LOWERED)


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


@pytest.mark.parametrize("outcome", [ScaleOutcome.CONFLICT, ScaleOutcome.FAILED])
def test_a_scale_that_could_not_be_lowered_lifts_everything(outcome):
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.step()

    actions = scene.step(ScaleReplied(scene.state.operation.id, outcome))

    assert [type(action) for action in actions[:2]] == [Unfence, ClearCost]
    assert isinstance(scene.state, Idle)


def test_a_write_whose_answer_is_lost_is_recognised_by_what_it_did():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.step()
    scene.observation = dataclasses.replace(scene.observation, replicas=3)

    scene.step(wait=20)

    assert isinstance(scene.state, Verifying)


def test_a_write_that_never_happened_lifts_everything():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.step()

    actions = scene.step(wait=20)

    assert Unfence in {type(action) for action in actions}
    assert isinstance(scene.state, Idle)


def lowered_scene():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.step()
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
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.step()

    assert scene.step(scene.lowered()) == ()
    assert scene.step() == ()
    assert isinstance(scene.state, Verifying)


def test_a_lower_number_that_was_never_seen_is_not_waited_for_for_ever():
    scene = Scene()
    scene.step()
    scene.step(scene.fenced())
    scene.turned()
    scene.step()
    scene.step(scene.lowered())
    scene.target = 5

    assert scene.step(wait=29) == ()
    assert [type(action) for action in scene.step(wait=1)] == [Unfence, ClearCost]
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
