"""What holds for every decision, whatever the work, the bounds and the history."""

import dataclasses
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.demand import slot_rule
from leadsman_operator.scaling.model import (
    Action,
    Background,
    CapabilityWork,
    PodSample,
    PoolMemory,
    PoolObservation,
    ScalingMode,
    ScalingPolicy,
    Signal,
)
from scaling_cases import pods, pool, workers
from scaling_cases.build import DAY, START


@st.composite
def specs(draw, policy=None, mode=ScalingMode.ACTIVE):
    high = draw(st.integers(1, 200))
    return pool(
        max_replicas=high,
        min_replicas=draw(st.integers(0, high)),
        slots_per_worker=draw(st.integers(1, 8)),
        mode=mode,
        policy=policy or draw(st.sampled_from(list(ScalingPolicy))),
        target_tasks_per_slot=draw(st.integers(1, 20)),
        target_age_seconds=draw(st.integers(1, 600)),
        scale_out_max_step=draw(st.none() | st.integers(1, 10)),
        scale_in_idle_seconds=draw(st.integers(0, 600)),
        scale_in_max_step=draw(st.none() | st.integers(1, 10)),
        step_high_water_mark=draw(st.integers(1, 20)),
        step_add_replicas=draw(st.integers(1, 10)),
        headroom_slots=draw(st.integers(0, 5)),
        signal_lost_floor=draw(st.none() | st.integers(0, high)),
    )


@st.composite
def works(draw):
    waiting = draw(st.integers(0, 2000))
    return CapabilityWork(
        name="browser",
        waiting=waiting,
        leasable=draw(st.integers(0, waiting)),
        oldest_age_seconds=draw(st.none() | st.floats(0, 1000)),
        service_seconds=draw(st.none() | st.floats(0, 500)),
        held_slots=draw(st.integers(0, 10)),
        elsewhere=draw(st.sampled_from([0, 0, 1, 500])),
    )


@st.composite
def observations(draw, spec):
    replicas = draw(st.integers(0, 30))
    held = draw(st.lists(st.integers(0, spec.slots_per_worker), max_size=replicas))
    ready = draw(st.lists(st.booleans(), min_size=replicas, max_size=replicas))
    return PoolObservation(
        replicas=replicas,
        signal=Signal("e", draw(st.sampled_from([0.0, 1.0, 20.0])), START - DAY),
        work=(draw(works()),),
        workers=workers(*held, slots=spec.slots_per_worker),
        pods=tuple(
            PodSample(each.uid, each.name, ready=is_ready, failing=draw(st.booleans()) and not is_ready)
            for each, is_ready in zip(pods(replicas), ready, strict=True)
        ),
        startup_seconds=draw(st.floats(0, 300)),
        rollout_in_progress=draw(st.booleans()),
        quota_exceeded=draw(st.booleans()),
        conflict=draw(st.booleans()),
    )


@st.composite
def histories(draw, policy=None, mode=ScalingMode.ACTIVE):
    """A spec and what was observed, each with the seconds since the one before."""
    spec = draw(specs(policy, mode))
    steps = draw(st.lists(st.tuples(st.floats(0, 400), observations(spec)), min_size=1, max_size=12))
    return spec, steps


def replay(spec, steps):
    memory, now, found = PoolMemory(), START, []
    for wait, observation in steps:
        now += wait
        decision, memory = decide(spec, observation, memory, now)
        found.append((now, observation, decision, memory))
    return found


@given(histories())
def test_replicas_are_whole_and_within_their_bounds_or_stay(history):
    spec, steps = history
    for _, observation, decision, _ in replay(spec, steps):
        assert type(decision.replicas) is int
        if decision.action is Action.SCALE_OUT:
            assert observation.replicas < decision.replicas <= max(spec.max_replicas, spec.min_replicas)
        elif decision.action is Action.SCALE_IN:
            assert spec.min_replicas <= decision.replicas < observation.replicas
        else:
            assert decision.replicas == observation.replicas


@given(histories())
def test_every_step_from_the_recommendation_to_the_result_is_named(history):
    spec, steps = history
    for _, _, decision, _ in replay(spec, steps):
        if not decision.signal_healthy:
            continue
        number = decision.recommended
        for clamp in decision.clamps:
            assert clamp.before == number
            assert clamp.note
            number = clamp.after
        assert number == decision.replicas


@given(histories())
def test_the_summary_carries_the_numbers(history):
    spec, steps = history
    for _, observation, decision, _ in replay(spec, steps):
        assert str(decision.replicas) in decision.summary
        assert str(observation.replicas) in decision.summary
        assert "\n" not in decision.summary
        assert len(decision.summary) < 1000


@given(histories())
def test_nothing_scales_in_within_the_window(history):
    """No scale-in before the work has been known for the window, nor below what was wanted within it."""
    spec, steps = history
    found = replay(spec, steps)
    for index, (now, _, decision, memory) in enumerate(found):
        if decision.action is not Action.SCALE_IN:
            continue
        assert memory.since is not None
        assert now - memory.since >= spec.scale_in_idle_seconds
        if spec.policy is ScalingPolicy.TARGET:
            # What one decision found was wanted until the next one.
            recent = [
                then.slots
                for position, (_, _, then, _) in enumerate(found[: index + 1])
                if then.signal_healthy
                and (position == index or now - found[position + 1][0] < spec.scale_in_idle_seconds)
            ]
            needed = min(-(-max(recent) // spec.slots_per_worker), spec.max_replicas)
            assert decision.replicas >= needed


@given(histories())
def test_a_bad_signal_never_scales_in_and_scales_out_only_to_a_stated_floor(history):
    spec, steps = history
    for _, observation, decision, _ in replay(spec, steps):
        if observation.signal.age_seconds > 15:
            assert not decision.signal_healthy
            assert decision.action is not Action.SCALE_IN
            if decision.action is Action.SCALE_OUT:
                assert decision.replicas == max(spec.min_replicas, spec.signal_lost_floor or 0)


@given(histories())
def test_the_leases_of_workers_that_stay_always_have_their_slots(history):
    spec, steps = history
    for _, observation, decision, _ in replay(spec, steps):
        if decision.action is Action.SCALE_IN:
            leased = sum(worker.leases for worker in observation.workers)
            needed = min(-(-leased // spec.slots_per_worker), spec.max_replicas)
            assert decision.replicas >= needed


@given(histories(mode=ScalingMode.OBSERVE))
def test_observe_never_acts(history):
    spec, steps = history
    assert all(decision.action is Action.HOLD for _, _, decision, _ in replay(spec, steps))


@given(histories())
def test_the_same_arguments_give_the_same_answer(history):
    spec, steps = history
    assert replay(spec, steps) == replay(spec, steps)


@settings(max_examples=200)
@given(
    specs(policy=ScalingPolicy.TARGET),
    st.integers(0, 500),
    st.integers(0, 3000),
    st.integers(0, 3000),
    st.none() | st.floats(0, 500),
    st.none() | st.floats(0, 1000),
    st.floats(0, 300),
)
def test_more_waiting_work_never_asks_for_fewer_slots(spec, leased, less, more, service, age, startup):
    low, high = sorted((less, more))
    rule = slot_rule(spec, service, age, startup)

    assert leased <= rule.want(leased, low) <= rule.want(leased, high) <= leased + high


@given(
    specs(policy=ScalingPolicy.TARGET),
    st.integers(0, 500),
    st.integers(1, 3000),
    st.none() | st.floats(0, 500),
    st.floats(0, 300),
)
def test_waiting_work_is_never_left_without_a_slot(spec, leased, waiting, service, startup):
    assert slot_rule(spec, service, None, startup).want(leased, waiting) >= 1


@given(
    specs(policy=ScalingPolicy.TARGET),
    st.integers(0, 500),
    st.integers(0, 3000),
    st.floats(0, 500),
    st.floats(0, 500),
    st.floats(0, 1000),
    st.floats(0, 300),
)
def test_an_older_queue_or_longer_tasks_never_ask_for_fewer_slots(
    spec, leased, waiting, service, longer, age, startup
):
    short, long = sorted((service, service + longer))
    young = slot_rule(spec, short, 0.0, startup).want(leased, waiting)

    assert slot_rule(spec, short, age, startup).want(leased, waiting) >= young
    assert slot_rule(spec, long, 0.0, startup).want(leased, waiting) >= young


@given(
    specs(policy=ScalingPolicy.TARGET),
    st.integers(0, 300),
    st.integers(0, 300),
    st.floats(0, 500),
    st.floats(0, 300),
)
def test_taking_waiting_tasks_into_work_is_no_reason_to_grow(spec, waiting, taken, service, startup):
    """New leases raise L and lower W: the sum, and so the target, stays what it was (no ratchet)."""
    taken = min(taken, waiting)
    rule = slot_rule(spec, service, 0.0, startup)

    before, after = rule.want(0, waiting), rule.want(taken, waiting - taken)

    assert after == max(taken, before)


@st.composite
def constant_inputs(draw):
    spec = draw(specs(policy=ScalingPolicy.TARGET))
    part = draw(works())
    return spec, dataclasses.replace(part, oldest_age_seconds=None), draw(st.integers(0, 30))


@given(constant_inputs())
def test_a_constant_input_settles_and_never_flaps(given_input):
    """The fleet follows each decision at once; the work stays as it is: at most one rise, then falls, then rest."""
    spec, part, replicas = given_input
    memory, sizes = PoolMemory(), [replicas]
    for step in range(40):
        observation = PoolObservation(
            replicas=replicas,
            signal=Signal("e", 0.0, START - DAY),
            work=(part,),
            pods=pods(replicas),
        )
        decision, memory = decide(spec, observation, memory, START + 100.0 * step)
        if decision.action is not Action.HOLD:
            replicas = decision.replicas
        sizes.append(replicas)

    directions = [(after > before) - (after < before) for before, after in itertools.pairwise(sizes)]
    moves = [direction for direction in directions if direction]
    assert moves in ([1] * len(moves), [-1] * len(moves))
    slots = slot_rule(spec, part.service_seconds, None, 30.0).slots(0, part) + spec.headroom_slots
    wanted = -(-slots // spec.slots_per_worker)
    settled = min(max(wanted, spec.min_replicas), spec.max_replicas)
    if spec.scale_in_max_step is None and spec.scale_out_max_step is None:
        assert sizes[-1] == settled


@given(st.integers(0, 500), st.integers(1, 500), st.integers(1, 99), st.integers(0, 500), st.integers(0, 500))
def test_a_reserve_leaves_room_for_all_background_slots_and_never_falls(tasks, others, percent, slots, more):
    part = Background(tasks=tasks, of=tasks + others, reserve_percent=percent)
    total = slots + part.reserve(slots)
    background = -(-slots * tasks // (tasks + others))

    assert max(1, total - total * percent // 100) >= background  # what the broker lets run of them
    assert part.reserve(slots + more) >= part.reserve(slots)
