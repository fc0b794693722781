"""Busy workers that somebody else takes away."""

import dataclasses

from leadsman_operator.reconcile.evictions import busy_evictions, going
from leadsman_operator.scaling.scale_in import Idle, Operation, Verifying
from scaling_cases import observe, pods, workers


def deleting(observation, *uids):
    changed = tuple(dataclasses.replace(pod, terminating=pod.uid in uids) for pod in observation.pods)
    return dataclasses.replace(observation, pods=changed)


def told(observation, before, state=None):
    return [(pod.uid, leases) for pod, leases in busy_evictions(observation, before, state or Idle())]


BUSY = observe(3, workers=workers(2, 0, 1, slots=2), pods=pods(3))


def test_a_busy_worker_whose_deletion_is_new_is_told_with_what_it_holds():
    assert told(deleting(BUSY, "pod-0", "pod-1"), going(BUSY)) == [("pod-0", 2)]


def test_each_is_told_once():
    observation = deleting(BUSY, "pod-0")

    assert told(observation, going(observation)) == []
    assert told(deleting(BUSY, "pod-0", "pod-2"), going(observation)) == [("pod-2", 1)]


def test_what_went_before_the_first_look_is_not_told():
    assert told(deleting(BUSY, "pod-0"), None) == []


def test_whom_a_scale_in_takes_it_counts_itself():
    operation = Operation(id="o", epoch="e", from_replicas=3, target=2, before={})

    assert told(deleting(BUSY, "pod-0"), going(BUSY), Verifying(operation, 0.0, 2, 1)) == []
