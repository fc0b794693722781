"""The Step policy: the seed's high-water mark."""

from leadsman.reasons import Reason
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import Action, PoolMemory, ScalingPolicy
from scaling_cases import observe, pods, pool, seen_for, work, workers
from scaling_cases.build import START


def step_pool(**changes):
    return pool(policy=ScalingPolicy.STEP, **changes)


def decided(spec, observation):
    return decide(spec, observation, PoolMemory(), START)[0]


def test_from_the_mark_on_a_worker_is_added():
    one, two = observe(1, work(1), workers=workers(1)), observe(1, work(2), workers=workers(1))

    assert decided(step_pool(), one).action is Action.HOLD
    decision = decided(step_pool(), two)
    assert (decision.action, decision.replicas, decision.reason) == (Action.SCALE_OUT, 2, Reason.HIGH_WATER_MARK)
    assert decision.formula == "2 wait (mark 2): 1 + 1, at most 3 of use = 2"


def test_the_next_worker_waits_for_the_last_one():
    starting = observe(2, work(6), workers=workers(1), pods=(*pods(1), *pods(2, ready=False)[1:]))
    started = observe(2, work(6), workers=workers(1, 1))

    assert decided(step_pool(), starting).action is Action.HOLD
    assert decided(step_pool(), starting).reason is Reason.WORKERS_STARTING
    assert decided(step_pool(), started).replicas == 3


def test_a_pool_of_zero_wakes_for_a_single_task():
    assert decided(step_pool(step_high_water_mark=10), observe(0, work(1))).replicas == 1


def test_no_worker_is_added_for_work_that_may_not_run():
    capped = observe(2, work(50, leasable=0), workers=workers(1, 1))

    assert decided(step_pool(), capped).action is Action.HOLD


def test_several_at_a_time_up_to_the_maximum():
    decision = decided(step_pool(step_add_replicas=15, max_replicas=12), observe(1, work(40), workers=workers(1)))

    assert (decision.replicas, decision.reason) == (12, Reason.AT_MAX_REPLICAS)


def test_after_a_quiet_window_one_leaves_and_the_window_starts_anew():
    spec = step_pool(min_replicas=1)
    decision, memory = seen_for(300, spec, observe(4, work(0)))
    assert (decision.action, decision.replicas) == (Action.SCALE_IN, 3)

    after, memory = decide(spec, observe(3, work(0)), memory, START + 301)
    soon, memory = decide(spec, observe(3, work(0)), memory, START + 600)
    next_, _ = decide(spec, observe(3, work(0)), memory, START + 601)

    assert [each.action for each in (after, soon, next_)] == [Action.HOLD, Action.HOLD, Action.SCALE_IN]
    assert next_.replicas == 2


def test_waiting_work_resets_the_quiet_window():
    spec = step_pool()
    _, memory = seen_for(299, spec, observe(4, work(0)))

    _, memory = decide(spec, observe(4, work(1), workers=workers(1, 1, 1, 1)), memory, START + 299.5)
    decision, _ = decide(spec, observe(4, work(0)), memory, START + 301)

    assert decision.action is Action.HOLD


def test_never_below_what_is_busy():
    decision, _ = seen_for(301, step_pool(scale_in_max_step=4), observe(4, work(0), workers=workers(1, 1, 1, 0)))

    assert (decision.action, decision.replicas) == (Action.SCALE_IN, 3)


def test_the_next_look_is_told_when_the_quiet_window_ends():
    decision, _ = seen_for(100, step_pool(), observe(4, work(0)))

    assert decision.recheck_seconds == 200.0
