"""The decision on a pool's size: how work, bounds, time and trust come together."""

import dataclasses
import itertools

import pytest

from leadsman.reasons import Reason
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import Action, Background, PoolMemory, ScalingMode, Signal
from scaling_cases import healthy, observe, pods, pool, seen_for, work, workers
from scaling_cases.build import START


def decided(spec, observation, memory=None, now=START):
    return decide(spec, observation, memory or PoolMemory(), now)[0]


def test_from_zero_to_the_final_number_is_one_decision():
    decision = decided(pool(), observe(0, work(50, service_seconds=12.0, oldest_age_seconds=3.0)))

    assert decision.action is Action.SCALE_OUT
    assert decision.replicas == 20
    assert decision.recommended == 20
    assert decision.reason is Reason.DEPTH_ABOVE_TARGET
    assert decision.summary == "0 -> 20: 50 waiting (oldest 3 s), 0 in flight, 20 slots wanted = 20 workers"
    assert decision.formula == "ceil(20 slots / 1 per worker) = 20"


def test_a_bound_that_changed_the_number_is_named_with_its_figure():
    decision = decided(pool(), observe(0, work(50)))

    assert (decision.recommended, decision.replicas) == (50, 20)
    assert decision.reason is Reason.AT_MAX_REPLICAS
    assert [(clamp.reason, clamp.before, clamp.after) for clamp in decision.clamps] == [
        (Reason.AT_MAX_REPLICAS, 50, 20)
    ]
    assert decision.summary.endswith("; maxReplicas is 20")


def test_min_replicas_are_kept_without_work():
    decision = decided(pool(min_replicas=3), observe(0, work(0)))

    assert (decision.action, decision.replicas, decision.reason) == (Action.SCALE_OUT, 3, Reason.AT_MIN_REPLICAS)


def test_slots_of_several_capabilities_add_up():
    spec = pool(capabilities=("browser", "llm"), slots_per_worker=4)
    parts = (work(10, service_seconds=600.0), work(9, name="llm"))

    decision = decided(spec, observe(0, *parts))

    assert [each.slots for each in decision.inputs] == [10, 9]
    assert (decision.slots, decision.replicas) == (19, 5)


def test_pods_that_are_still_starting_are_part_of_what_there_is():
    starting = observe(10, work(10), workers=(), pods=pods(10, ready=False))

    decision = decided(pool(), starting)

    assert (decision.action, decision.replicas) == (Action.HOLD, 10)
    assert decision.reason is Reason.WORKERS_STARTING


def test_pods_that_fail_to_start_never_raise_the_number():
    failing = observe(3, work(50), workers=(), pods=pods(3, ready=False, failing=True))

    decision = decided(pool(), failing)

    assert (decision.action, decision.replicas) == (Action.HOLD, 3)
    assert decision.reason is Reason.WORKERS_FAILING
    assert "3 of 3 pods fail to start" in decision.summary


def test_one_failing_pod_among_many_does_not_stop_the_others():
    pods_ = (*pods(9), *pods(10, ready=False, failing=True)[9:])

    decision = decided(pool(), observe(10, work(50), pods=pods_, workers=workers(*[1] * 9)))

    assert decision.action is Action.SCALE_OUT
    assert decision.replicas == 20


def test_beyond_a_quota_nothing_is_asked_for():
    decision = decided(
        pool(), observe(8, work(50), pods=pods(5), workers=workers(1, 1, 1, 1, 1), quota_exceeded=True)
    )

    assert (decision.action, decision.replicas, decision.reason) == (Action.HOLD, 8, Reason.QUOTA_EXCEEDED)
    assert "a quota allows 5 of 8 pods" in decision.summary


def test_min_replicas_are_a_promise_even_when_workers_fail():
    failing = observe(1, work(5), workers=(), pods=pods(1, ready=False, failing=True))

    assert decided(pool(min_replicas=2), failing).replicas == 2


def test_slots_that_stay_free_beside_waiting_work_stop_the_growth_after_thirty_seconds():
    stuck = observe(2, work(50))

    early, _ = seen_for(29, pool(), stuck)
    late, _ = seen_for(30, pool(), stuck)

    assert (early.action, early.replicas) == (Action.SCALE_OUT, 20)
    assert (late.action, late.replicas, late.reason) == (Action.HOLD, 2, Reason.WORKERS_IDLE_WHILE_TASKS_WAIT)
    assert "free slots have stayed free for 30 s while tasks wait" in late.summary


def test_one_stuck_slot_among_many_does_not_stop_the_growth():
    mostly_busy = observe(4, work(50), workers=workers(1, 1, 1, 0))

    decision, _ = seen_for(120, pool(), mostly_busy)

    assert (decision.action, decision.replicas) == (Action.SCALE_OUT, 20)


def test_free_slots_do_not_stop_the_growth_for_work_that_is_not_due_yet():
    early = observe(2, work(50, due_soon=50))

    decision, _ = seen_for(120, pool(), early)

    assert decision.action is Action.SCALE_OUT


def test_a_worker_that_is_free_now_and_then_is_no_sign_of_anything():
    memory = PoolMemory()
    for second in range(120):
        held = (0, 0) if second % 20 == 0 else (1, 1)
        decision, memory = decide(pool(), observe(2, work(50), workers=workers(*held)), memory, START + second)

    assert decision.action is Action.SCALE_OUT


def test_scale_out_steps_bound_how_many_start_at_once():
    spec = pool(scale_out_max_step=3)

    first = decided(spec, observe(0, work(50)))
    waiting = decided(spec, observe(3, work(50), workers=(), pods=pods(3, ready=False)))
    half = decided(spec, observe(3, work(50), workers=workers(1), pods=(*pods(1), *pods(3, ready=False)[1:])))
    next_ = decided(spec, observe(3, work(50), workers=workers(1, 1, 1)))

    assert [each.replicas for each in (first, waiting, half, next_)] == [3, 3, 4, 6]
    assert first.reason is Reason.SCALE_OUT_STEP
    assert "at most 3 start at once, 3 are starting" in waiting.summary


def test_a_conflict_holds_and_says_what_would_have_been():
    decision = decided(pool(), observe(4, work(50), conflict=True, workers=workers(1, 1, 1, 1)))

    assert (decision.action, decision.replicas, decision.reason) == (Action.HOLD, 4, Reason.CONFLICT)
    assert decision.recommended == 54


def test_observe_reports_what_it_would_do_and_does_nothing():
    decision = decided(pool(mode=ScalingMode.OBSERVE), observe(0, work(5)))

    assert (decision.action, decision.replicas, decision.reason) == (Action.HOLD, 5, Reason.OBSERVING)
    assert decision.summary.startswith("would go 0 -> 5: 5 waiting")


def test_paused_does_nothing_and_forgets_the_window():
    _, memory = seen_for(400, pool(), observe(5, work(0)))

    decision, after = decide(pool(mode=ScalingMode.PAUSED), observe(5, work(50)), memory, START + 401)

    assert (decision.action, decision.replicas, decision.reason) == (Action.HOLD, 5, Reason.POOL_PAUSED)
    assert after == PoolMemory()


@pytest.mark.parametrize(
    ("field", "number"),
    [
        *itertools.product(
            ("waiting", "leasable", "due_soon", "oldest_age_seconds", "service_seconds"),
            (-1, float("nan"), float("inf")),
        ),
        *itertools.product(("waiting", "leasable", "due_soon"), (10**12, 1.5)),
    ],
)
def test_a_number_that_cannot_be_true_holds(field, number):
    odd = observe(5, dataclasses.replace(work(0), **{field: number}))

    decision, memory = seen_for(1000, pool(), odd)

    assert (decision.action, decision.replicas, decision.reason) == (Action.HOLD, 5, Reason.SIGNAL_LOST)
    assert not decision.signal_healthy
    assert memory.since is None


@pytest.mark.parametrize(
    "odd",
    [
        {"leases": -1},
        {"slots": -1},
        {"slots": 10**12},
        {"idle_seconds": float("nan")},
        {"idle_seconds": -1.0},
        {"leases_by_capability": {"browser": -1}},
    ],
)
def test_a_worker_that_cannot_be_holds(odd):
    idle = workers(0, 0, 0, 0, 0)
    observed = observe(5, work(0), workers=(*idle[:4], dataclasses.replace(idle[4], **odd)))

    decision, _ = seen_for(1000, pool(), observed)

    assert (decision.action, decision.replicas, decision.reason) == (Action.HOLD, 5, Reason.SIGNAL_LOST)
    assert seen_for(1000, pool(), observe(5, work(0), workers=idle))[0].action is Action.SCALE_IN


@pytest.mark.parametrize(
    ("signal", "words"),
    [
        (None, "the broker was never heard"),
        (healthy(age_seconds=15.1), "the broker was last heard 15 s ago"),
        (healthy(age_seconds=86_400.0), "the broker was last heard 86400 s ago"),
    ],
)
def test_a_lost_signal_holds_and_says_since_when(signal, words):
    decision, _ = seen_for(1000, pool(), observe(5, work(0), signal=signal))

    assert (decision.action, decision.reason, decision.signal_healthy) == (Action.HOLD, Reason.SIGNAL_LOST, False)
    assert decision.summary == f"stays at 5: {words}"


def test_a_capability_the_broker_says_nothing_of_holds():
    decision, _ = seen_for(1000, pool(), observe(5, unreported_capabilities=("browser",)))

    assert (decision.action, decision.reason) == (Action.HOLD, Reason.SIGNAL_LOST)
    assert "the broker says nothing of browser" in decision.summary


def test_without_a_signal_only_min_replicas_are_made():
    decision = decided(pool(min_replicas=2), observe(0, work(50), signal=None))

    assert (decision.action, decision.replicas) == (Action.SCALE_OUT, 2)
    assert not decision.signal_healthy


def test_more_than_max_without_a_signal_is_left_alone():
    assert decided(pool(max_replicas=3), observe(5, signal=None)).action is Action.HOLD


def test_the_age_target_is_watched_even_when_nothing_changes():
    part = work(4, service_seconds=50.0, oldest_age_seconds=50.0, leasable=4)
    observation = observe(2, part, workers=workers(1, 1))

    decision = decided(pool(target_tasks_per_slot=5, target_age_seconds=300), observation)

    assert decision.recheck_seconds == pytest.approx(250.001)


def test_an_overdue_queue_is_the_reason():
    part = work(10, service_seconds=20.0, oldest_age_seconds=61.0)

    assert decided(pool(), observe(0, part)).reason is Reason.AGE_ABOVE_TARGET


def test_a_quiet_pool_at_its_size_needs_no_further_look():
    decision, _ = seen_for(1000, pool(), observe(0, work(0)))

    assert (decision.action, decision.reason, decision.recheck_seconds) == (Action.HOLD, Reason.STABLE, None)
    assert decision.summary == "stays at 0: no work"


def test_a_capability_that_does_not_exist_is_named():
    decision = decided(pool(), observe(0, unknown_capabilities=("browser",)))

    assert decision.reason is Reason.UNKNOWN_CAPABILITY


def test_workers_without_a_handler_are_named():
    decision = decided(pool(), observe(1, work(0), workers=workers(1, capability="llm")))

    assert decision.reason is Reason.CAPABILITY_NOT_SERVED


def test_a_new_broker_epoch_needs_a_full_window_of_its_own():
    spec, idle = pool(), observe(5, work(0))
    _, memory = seen_for(1000, spec, idle)
    restarted = dataclasses.replace(
        idle, signal=Signal(epoch="epoch-2", age_seconds=0.0, unbroken_since=START + 1000)
    )

    soon, memory = decide(spec, restarted, memory, START + 1299)
    later, _ = decide(spec, restarted, memory, START + 1300)

    assert (soon.action, soon.reason) == (Action.HOLD, Reason.SCALE_IN_WINDOW)
    assert "the work is known for 299 of 300 s" in soon.summary
    assert later.action is Action.SCALE_IN


def test_headroom_is_kept_free_above_what_the_work_asks_for():
    decision = decided(pool(headroom_slots=2), observe(4, work(0), workers=workers(1, 1, 1, 1)))

    assert (decision.replicas, decision.reason) == (6, Reason.HEADROOM)
    assert decision.summary == "4 -> 6: 0 waiting, 4 in flight, 6 slots wanted (headroom 2) = 6 workers"
    assert decision.formula == "ceil(6 slots with 2 of headroom / 1 per worker) = 6"


def test_headroom_is_no_demand_that_shrinking_waits_for_when_it_is_taken_away():
    spec = pool(headroom_slots=2)
    _, memory = seen_for(400, spec, observe(2, work(0)))

    decision = decide(dataclasses.replace(spec, headroom_slots=0), observe(2, work(0)), memory, START + 401)[0]

    assert decision.reason is Reason.SCALE_IN_WINDOW
    assert "2 slots were wanted within the last 300 s" in decision.summary


def test_the_floor_of_a_lost_signal_is_named():
    decision = decided(pool(signal_lost_floor=4), observe(1, signal=None))

    assert (decision.action, decision.replicas, decision.reason) == (Action.SCALE_OUT, 4, Reason.SIGNAL_LOST)
    assert decision.summary == "1 -> 4: signalLostFloor is 4; the broker was never heard"
    assert [(clamp.reason, clamp.before, clamp.after) for clamp in decision.clamps] == [(Reason.SIGNAL_LOST, 1, 4)]


def test_the_floor_of_a_lost_signal_is_not_for_a_queue_the_broker_has_not_heard_of_yet():
    decision = decided(pool(signal_lost_floor=4), observe(1, unreported_capabilities=("browser",)))

    assert (decision.action, decision.replicas) == (Action.HOLD, 1)


def test_a_bound_of_a_schedule_is_named_with_it():
    spec = pool(min_replicas=3, min_schedule="daily 08:00-18:00 UTC")

    decision = decided(spec, observe(0, work(0)))

    assert decision.summary == "0 -> 3: no work; minReplicas is 3 by schedule daily 08:00-18:00 UTC"


def test_a_rate_limit_that_keeps_a_fleet_small_is_named():
    limited = work(100, leasable=0, service_seconds=20.0, rate_slots=10)

    decision = decided(pool(), observe(10, limited, workers=workers(*[1] * 10)))

    assert (decision.action, decision.reason) == (Action.HOLD, Reason.RATE_LIMIT)
    assert decision.summary.endswith("; the rate limit of browser keeps no more than 10 slots busy")


def test_an_interactive_reserve_asks_for_slots_beside_the_background_work():
    part = work(8, background=Background(tasks=8, of=8, reserve_percent=20))

    decision = decided(pool(), observe(0, part))

    assert decision.replicas == 10
    assert decision.inputs[0].formula.endswith("-> 8 slots; + 2 so that 20 % stay free of background tasks")
