"""What each condition says of what a look found."""

import dataclasses

import pytest

from leadsman.reasons import Reason
from leadsman_operator.api import ConditionStatus, ConditionType
from leadsman_operator.reconcile.conditions import Found, conditions, invalid
from leadsman_operator.reconcile.problem import Problem
from leadsman_operator.scaling.model import (
    Action,
    Clamp,
    Decision,
    PodSample,
    PoolObservation,
    PoolSpec,
    ScalingMode,
    Signal,
)

SIGNAL = Signal(epoch="e1", age_seconds=0.5, unbroken_since=0.0)


def found(*, mode=ScalingMode.ACTIVE, signal=SIGNAL, decision=None, observation=None, **fields):
    spec = PoolSpec(name="browser", capabilities=("browser",), max_replicas=9, mode=mode)
    made = Decision(
        action=Action.HOLD,
        current=2,
        replicas=2,
        recommended=2,
        slots=2,
        reason=Reason.STABLE,
        summary="",
        **(decision or {}),
    )
    seen = PoolObservation(replicas=2, signal=signal, **(observation or {}))
    return Found(spec=spec, observation=seen, decision=made, deployment="browser", **fields)


def verdict(subject, kind):
    return next(one for one in conditions(subject) if one.type is kind)


def test_a_pool_in_order_is_ready_active_unlimited_and_alone():
    shown = {one.type: (one.status, one.reason) for one in conditions(found())}
    yes, no, fine = ConditionStatus.TRUE, ConditionStatus.FALSE, Reason.AS_EXPECTED
    assert shown == {
        ConditionType.READY: (yes, fine),
        ConditionType.SIGNAL_HEALTHY: (yes, fine),
        ConditionType.SCALING_ACTIVE: (yes, fine),
        ConditionType.SCALING_LIMITED: (no, fine),
        ConditionType.CONFLICT: (no, fine),
    }


@pytest.mark.parametrize(
    ("fields", "reason", "text"),
    [
        ({"refused": "spec.x: bad"}, Reason.TEMPLATE_REFUSED, "spec.x: bad"),
        (
            {"problem": Problem(Reason.FOREIGN_DEPLOYMENT, "left alone")},
            Reason.FOREIGN_DEPLOYMENT,
            "left alone",
        ),
        ({"apply_failed": "timeout"}, Reason.APPLY_FAILED, "timeout"),
        (
            {"observation": {"unknown_capabilities": ("browsr",)}},
            Reason.UNKNOWN_CAPABILITY,
            "no Capability browsr",
        ),
        ({"pods_labelled": False}, Reason.PODS_NOT_LABELLED, "leadsman.dev/pool: browser"),
        ({"signal": None}, Reason.SIGNAL_LOST, "nothing has been heard"),
        ({"observation": {"unreported_capabilities": ("browser",)}}, Reason.SIGNAL_LOST, "browser yet"),
    ],
    ids=lambda value: value.value if isinstance(value, Reason) else "",
)
def test_what_keeps_a_pool_from_being_ready_is_named(fields, reason, text):
    shown = verdict(found(**fields), ConditionType.READY)
    assert (shown.status, shown.reason) == (ConditionStatus.FALSE, reason)
    assert text in shown.message


def test_a_stale_signal_leaves_the_pool_ready_but_not_active():
    subject = found(decision={"signal_healthy": False})
    assert verdict(subject, ConditionType.READY).status is ConditionStatus.TRUE
    assert verdict(subject, ConditionType.SIGNAL_HEALTHY).reason is Reason.SIGNAL_LOST
    assert verdict(subject, ConditionType.SCALING_ACTIVE).reason is Reason.SIGNAL_LOST


@pytest.mark.parametrize(
    ("mode", "reason"),
    [(ScalingMode.PAUSED, Reason.POOL_PAUSED), (ScalingMode.OBSERVE, Reason.OBSERVING)],
)
def test_a_mode_that_writes_nothing_is_shown(mode, reason):
    shown = verdict(found(mode=mode), ConditionType.SCALING_ACTIVE)
    assert (shown.status, shown.reason) == (ConditionStatus.FALSE, reason)


def test_the_last_bound_is_the_limit_and_waiting_to_shrink_is_none():
    high = Clamp(Reason.AT_MAX_REPLICAS, 50, 9, "maxReplicas is 9")
    shown = verdict(found(decision={"clamps": (high,)}), ConditionType.SCALING_LIMITED)
    assert (shown.status, shown.reason) == (ConditionStatus.TRUE, Reason.AT_MAX_REPLICAS)
    assert "maxReplicas is 9" in shown.message

    window = Clamp(Reason.SCALE_IN_WINDOW, 0, 2, "wanted a moment ago")
    shown = verdict(found(decision={"clamps": (window,)}), ConditionType.SCALING_LIMITED)
    assert shown.status is ConditionStatus.FALSE


def test_pods_that_cannot_start_or_be_made_are_a_limit_with_their_cause():
    pods = tuple(PodSample(uid=str(n), name=str(n), failing=n < 2) for n in range(3))
    shown = verdict(
        found(observation={"pods": pods}, failing={"ImagePullBackOff": 2}), ConditionType.SCALING_LIMITED
    )
    assert shown.reason is Reason.WORKERS_FAILING
    assert shown.message == "of 3 pods cannot start: 2 ImagePullBackOff"

    shown = verdict(
        found(observation={"quota_exceeded": True}, replica_failure="exceeded quota: few"),
        ConditionType.SCALING_LIMITED,
    )
    assert (shown.reason, shown.message) == (Reason.QUOTA_EXCEEDED, "exceeded quota: few")

    shown = verdict(found(replica_failure="violates PodSecurity"), ConditionType.SCALING_LIMITED)
    assert shown.reason is Reason.WORKERS_FAILING


def test_a_conflict_names_the_other_writer_and_what_will_be_done():
    subject = found(observation={"conflict": True}, other_managers=("kubectl",))
    shown = verdict(subject, ConditionType.CONFLICT)
    assert shown.status is ConditionStatus.TRUE
    assert "kubectl" in shown.message
    assert "taken back when" in shown.message

    again = verdict(dataclasses.replace(subject, took_back=True), ConditionType.CONFLICT)
    assert "nothing more is done" in again.message


def test_replicas_that_were_never_written_are_nobodys_yet():
    assert verdict(found(took_scale=False), ConditionType.CONFLICT).status is ConditionStatus.UNKNOWN


def test_why_a_fleet_does_not_shrink_yet_is_said():
    shown = verdict(found(scale_in_waits_for="all workers are busy"), ConditionType.SCALING_ACTIVE)
    assert shown.status is ConditionStatus.TRUE
    assert "all workers are busy" in shown.message


def test_a_spec_that_cannot_be_read_is_said_to_be():
    assert {one.reason for one in invalid("spec.x: wrong")} == {Reason.INVALID_SPEC}


def test_pods_that_no_node_takes_are_said_with_the_schedulers_words_unless_a_bound_says_more():
    words = "0/3 nodes are available: 3 Insufficient memory."
    limited = verdict(found(unschedulable=(2, words)), ConditionType.SCALING_LIMITED)

    assert (limited.status, limited.reason) == (ConditionStatus.TRUE, Reason.UNSCHEDULABLE)
    assert limited.message == f"no node takes 2 pods: {words}"

    clamps = (Clamp(Reason.AT_MAX_REPLICAS, 12, 9),)
    bounded = verdict(found(unschedulable=(2, words), decision={"clamps": clamps}), ConditionType.SCALING_LIMITED)
    assert bounded.reason is Reason.AT_MAX_REPLICAS

    least = (Clamp(Reason.AT_MIN_REPLICAS, 0, 2),)
    kept = verdict(found(unschedulable=(2, words), decision={"clamps": least}), ConditionType.SCALING_LIMITED)
    assert kept.reason is Reason.UNSCHEDULABLE
