"""Which busy workers get nothing new so that they can go: the least loaded, few at a time, until demand returns."""

import dataclasses

import pytest

from leadsman_operator.scaling.cordons import RENEW_SECONDS, Cordon, Cordons, Uncordon, cordon_busy, next_look
from leadsman_operator.scaling.scale_in import RETRY_SECONDS, ScaleInView
from leadsman_operator.scaling.victims import victims
from scaling_cases import observe, pods, pool, workers
from scaling_cases.scene import NOW, decision

OURS = "pool-uid.cordon"


class Fleet:
    """Workers with these leases, of which `target` are to stay."""

    def __init__(self, *leases, target, max_draining=2, **changes):
        self.now = NOW
        self.target = target
        self.max_draining = max_draining
        self.memory = Cordons()
        self.cordons = {}
        self.observation = observe(len(leases), workers=workers(*leases, slots=4), **changes)

    def leases(self, *leases):
        self.observation = dataclasses.replace(self.observation, workers=workers(*leases, slots=4))

    def step(self, wait=0.0, answered=True):
        self.now += wait
        view = ScaleInView(
            spec=pool(),
            observation=self.observation,
            decision=decision(self.observation.replicas, self.target),
            operation="op",
            resource_version="7",
            max_draining=self.max_draining,
            cordon_operation=OURS,
            cordons=dict(self.cordons),
        )
        self.memory, actions = cordon_busy(self.memory, view, self.now)
        if answered:
            for action in actions:
                if isinstance(action, Cordon):
                    self.cordons |= dict.fromkeys(action.pod_uids, OURS)
                else:
                    for uid in action.pod_uids:
                        self.cordons.pop(uid, None)
        return actions


def cordon(*uids):
    return Cordon(OURS, uids)


def uncordon(*uids):
    return Uncordon(OURS, uids)


def test_the_least_loaded_are_cordoned_as_many_as_may_be_draining():
    fleet = Fleet(3, 1, 2, 1, 4, target=2, max_draining=2)

    assert fleet.step() == (cordon("pod-1", "pod-3"),)


def test_who_is_free_goes_without_a_cordon():
    assert Fleet(3, 0, 0, 1, target=2).step() == ()
    assert Fleet(3, 0, 2, 1, target=2).step() == (cordon("pod-3"),)


def test_those_that_are_stopping_with_tasks_already_count():
    gone = dataclasses.replace(pods(4)[3], terminating=True)
    fleet = Fleet(3, 1, 2, 1, target=1, max_draining=2, pods=(*pods(3), gone))

    assert fleet.step() == (cordon("pod-1"),)


def test_one_that_has_emptied_stays_cordoned_until_it_goes_and_is_taken_first():
    fleet = Fleet(3, 1, 2, target=2, max_draining=1)
    fleet.step()
    fleet.leases(3, 0, 2)

    assert fleet.step() == ()
    assert fleet.cordons == {"pod-1": OURS}
    observation = observe(
        3,
        workers=tuple(
            dataclasses.replace(each, cordoned=each.pod_uid == "pod-1", idle_seconds=idle)
            for each, idle in zip(workers(0, 0, 0), (900.0, 1.0, 900.0), strict=True)
        ),
    )
    assert [each.uid for each in victims(observation, 1).pods] == ["pod-1"]


def test_a_cordoned_worker_stays_chosen_when_another_one_has_fewer_tasks_now():
    fleet = Fleet(3, 1, 2, target=2, max_draining=1)
    fleet.step()
    fleet.leases(3, 2, 1)

    assert fleet.step() == ()


def test_returning_demand_lifts_every_cordon():
    fleet = Fleet(3, 1, 2, target=1)
    fleet.step()
    fleet.target = 3

    assert fleet.step() == (uncordon("pod-1", "pod-2"),)
    assert fleet.step() == ()


def test_a_smaller_need_lifts_the_most_loaded():
    fleet = Fleet(3, 1, 2, target=1)
    fleet.step()
    fleet.target = 2

    assert fleet.step() == (uncordon("pod-2"),)


def test_another_is_cordoned_only_when_the_lift_of_one_is_seen():
    fleet = Fleet(3, 1, 2, 1, target=3, max_draining=1)
    fleet.cordons = {"pod-0": OURS, "pod-2": OURS}

    assert fleet.step(answered=False) == (uncordon("pod-0"), cordon("pod-2"))
    assert fleet.step(answered=False) == ()


def test_somebody_else_who_becomes_free_goes_instead():
    fleet = Fleet(3, 1, 2, target=2)
    fleet.step()
    fleet.leases(0, 1, 2)

    assert fleet.step() == (uncordon("pod-1"),)


def test_a_new_leader_that_does_not_shrink_lifts_what_it_finds_and_leaves_a_persons_cordon():
    fleet = Fleet(3, 1, 2, target=3)
    fleet.cordons = {"pod-0": OURS, "pod-1": "a person", "elsewhere": OURS}

    assert fleet.step() == (uncordon("pod-0"),)


def test_a_worker_that_a_person_cordoned_is_not_ours_to_cordon():
    fleet = Fleet(3, 1, 2, target=2)
    fleet.cordons = {"pod-1": "a person"}

    assert fleet.step() == (cordon("pod-2"),)


def test_a_rollout_and_a_silent_or_unready_worker_are_left_alone():
    assert Fleet(3, 1, 2, target=1, rollout_in_progress=True).step() == ()
    unready = (pods(3)[0], dataclasses.replace(pods(3)[1], ready=False), pods(3)[2])
    assert Fleet(3, 1, 2, target=2, pods=unready).step() == (cordon("pod-2"),)
    silent = Fleet(3, 1, 2, target=2)
    silent.observation = dataclasses.replace(
        silent.observation,
        workers=tuple(
            dataclasses.replace(each, live=each.pod_uid != "pod-1") for each in silent.observation.workers
        ),
    )
    assert silent.step() == (cordon("pod-2"),)


def test_what_the_broker_does_not_show_is_asked_again_after_a_while():
    fleet = Fleet(3, 1, 2, target=2)

    assert fleet.step(answered=False) == (cordon("pod-1"),)
    assert next_look(fleet.memory, fleet.now) == fleet.now + RETRY_SECONDS
    assert fleet.step(answered=False, wait=1) == ()
    assert fleet.step(wait=RETRY_SECONDS) == (cordon("pod-1"),)


def test_a_lift_that_the_broker_does_not_show_is_asked_again():
    fleet = Fleet(3, 1, 2, target=2)
    fleet.step()
    fleet.target = 3

    assert fleet.step(answered=False) == (uncordon("pod-1"),)
    assert fleet.step(answered=False, wait=1) == ()
    assert fleet.step(wait=RETRY_SECONDS) == (uncordon("pod-1"),)


def test_cordons_are_renewed_while_they_are_wanted():
    fleet = Fleet(3, 1, 2, target=2)
    fleet.step()
    fleet.step()

    assert next_look(fleet.memory, fleet.now) == fleet.now + RENEW_SECONDS
    assert fleet.step(wait=RENEW_SECONDS) == (cordon("pod-1"),)


@pytest.mark.parametrize("target", [3, 5])
def test_nothing_is_cordoned_without_a_scale_in(target):
    assert Fleet(3, 1, 2, target=target).step() == ()
