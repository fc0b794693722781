"""What has gone wrong in autoscalers before, each as something this one does not do."""

import dataclasses

import pytest

from leadsman.reasons import Reason
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import Action, CapabilitySample, PoolMemory
from leadsman_operator.scaling.share import PoolView, share
from leadsman_operator.scaling.victims import victims
from scaling_cases import observe, pods, pool, seen_for, work, workers
from scaling_cases.build import START


def test_an_empty_queue_with_busy_workers_is_not_idle():
    """Backlog 0, every slot busy for half an hour: however long it lasts, they stay."""
    busy = observe(4, work(0, service_seconds=1800.0), workers=workers(1, 1, 1, 1))

    decision, _ = seen_for(900, pool(), busy)

    assert (decision.action, decision.replicas, decision.recommended) == (Action.HOLD, 4, 4)


def test_when_some_are_busy_only_the_idle_ones_go():
    """The queue empties while two of six are in the middle of long tasks."""
    mixed = observe(6, work(0, service_seconds=1800.0), workers=workers(0, 1, 0, 0, 1, 0))

    decision, _ = seen_for(301, pool(), mixed)
    chosen = victims(mixed, decision.current - decision.replicas)

    assert (decision.action, decision.replicas) == (Action.SCALE_IN, 2)
    assert {pod.uid for pod in chosen.pods} == {"pod-0", "pod-2", "pod-3", "pod-5"}


@pytest.mark.parametrize("rounds", [1, 5, 50])
def test_a_slot_that_is_starting_is_not_asked_for_again(rounds):
    """Ten tasks, ten pods pending: neither excess nor missing, however often it is looked at."""
    memory, replicas = PoolMemory(), 0
    for round_ in range(rounds):
        observation = observe(replicas, work(10), workers=(), pods=pods(replicas, ready=False))
        decision, memory = decide(pool(), observation, memory, START + round_)
        replicas = decision.replicas

    assert replicas == 10


def test_a_pod_that_never_schedules_is_neither_taken_away_nor_doubled():
    pending = observe(10, work(10), workers=(), pods=pods(10, ready=False, unschedulable=True))

    decision, _ = seen_for(600, pool(), pending)

    assert (decision.action, decision.replicas) == (Action.HOLD, 10)


def test_a_task_that_goes_from_hand_to_hand_does_not_wake_and_end_the_pool_for_ever():
    """Ready 0, 1, 0, 1 while its lease is lost and taken again: work is work, waiting or leased."""
    memory, seen = PoolMemory(), []
    for second in range(900):
        leased = second % 40 < 30
        observation = observe(1, work(0 if leased else 1), workers=workers(1 if leased else 0), pods=pods(1))
        decision, memory = decide(pool(), observation, memory, START + second)
        seen.append(decision.replicas)

    assert set(seen) == {1}


def test_a_burst_between_two_looks_still_wakes_the_pool():
    """What the broker pushes is decided on as it comes; nothing waits for a timer, a window or a second sample."""
    _, memory = seen_for(1000, pool(), observe(0, work(0)))

    decision, _ = decide(pool(), observe(0, work(3)), memory, START + 1000.001)

    assert (decision.action, decision.replicas) == (Action.SCALE_OUT, 3)


def test_two_pools_on_one_capability_do_not_each_scale_for_the_whole_of_it():
    sample = {"browser": _sample(waiting=12)}
    views = [PoolView(pool(name=name, max_replicas=8), observe(0)) for name in ("a", "b")]

    shares = share(sample, views)
    decisions = [
        decide(view.spec, observe(0, *shares.work[view.spec.name]), PoolMemory(), START)[0] for view in views
    ]

    assert [decision.replicas for decision in decisions] == [8, 4]


def test_min_replicas_raised_in_the_middle_of_a_scale_in_ends_it():
    idle = observe(5, work(0))
    decision, memory = seen_for(301, pool(), idle)
    assert (decision.action, decision.replicas) == (Action.SCALE_IN, 0)

    raised, memory = decide(pool(min_replicas=4), idle, memory, START + 302)
    above, _ = decide(pool(min_replicas=7), idle, memory, START + 303)

    assert (raised.action, raised.replicas) == (Action.SCALE_IN, 4)
    assert (above.action, above.replicas) == (Action.SCALE_OUT, 7)


def test_max_replicas_lowered_below_what_is_busy_takes_only_idle_workers():
    observation = observe(8, work(0, service_seconds=600.0), workers=workers(1, 1, 1, 1, 1, 1, 0, 0))

    decision, _ = seen_for(301, pool(max_replicas=4), observation)
    chosen = victims(observation, decision.current - decision.replicas)

    assert (decision.action, decision.replicas, decision.reason) == (Action.SCALE_IN, 4, Reason.AT_MAX_REPLICAS)
    assert {pod.uid for pod in chosen.pods} == {"pod-6", "pod-7"}


def test_other_slots_per_worker_count_at_once_and_the_window_with_them():
    observation = observe(8, work(0), workers=workers(1, 1, 1, 1, 1, 1, 1, 1))
    _, memory = decide(pool(), observation, PoolMemory(), START)
    idle = dataclasses.replace(observation, workers=workers(*[0] * 8))

    decision, _ = decide(pool(slots_per_worker=4), idle, memory, START + 299)

    # Eight slots were wanted within the window: two of the new workers have them. Not known for a window yet.
    assert decision.clamps[0].after == 2
    assert decision.action is Action.HOLD


def test_a_renamed_capability_leaves_the_old_ones_tasks_counted_until_they_are_done():
    holding_old = workers(1, 1, capability="old-name")

    decision, _ = seen_for(400, pool(), observe(2, work(0), workers=holding_old))

    assert (decision.action, decision.slots) == (Action.HOLD, 2)


def test_a_silent_worker_counts_until_its_leases_are_reclaimed():
    silent = observe(2, work(0), workers=workers(1, 1, live=False))

    decision, _ = seen_for(900, pool(), silent)

    assert (decision.action, decision.recommended) == (Action.HOLD, 2)


def test_the_free_slots_of_a_killed_worker_do_not_stop_the_growth():
    """Its pod is not ready, or its container runs again: the process before it takes no tasks, however it looks."""
    crashed = observe(1, work(20), workers=workers(0), pods=pods(1, ready=False))
    again = observe(1, work(20), workers=(*workers(0, last_heard_seconds=9.0), *workers(1)))

    for observation in (crashed, again):
        decision, _ = seen_for(60, pool(), observation)
        assert (decision.action, decision.replicas) == (Action.SCALE_OUT, 20)


def test_a_worker_that_is_going_away_needs_no_slot_for_what_it_finishes():
    draining = observe(1, work(0), workers=workers(1, draining=True), pods=pods(1, terminating=True))

    assert decide(pool(), draining, PoolMemory(), START)[0].recommended == 0


def test_one_empty_sample_does_not_start_a_scale_to_zero():
    """A broker that answers zeros for a moment: believed only when seen twice, five seconds apart."""
    spec = pool(scale_in_idle_seconds=0)
    busy, empty = observe(3, work(3), workers=workers(1, 1, 1)), observe(3, work(0))
    _, memory = decide(spec, busy, PoolMemory(), START)

    first, memory = decide(spec, empty, memory, START + 1)
    second, memory = decide(spec, empty, memory, START + 5.9)
    third, _ = decide(spec, empty, memory, START + 6)

    assert [each.action for each in (first, second, third)] == [Action.HOLD, Action.HOLD, Action.SCALE_IN]
    assert first.recheck_seconds == 5.0


def _sample(**numbers):
    return CapabilitySample("browser", leasable=numbers["waiting"], **numbers)
