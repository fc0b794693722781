"""The idle window and what it keeps."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.reasons import Reason
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import Action, PoolMemory
from leadsman_operator.scaling.window import highest, remember
from scaling_cases import observe, pool, seen_for, work, workers
from scaling_cases.build import START


def test_the_fleet_shrinks_to_the_most_that_was_wanted_within_the_window():
    memory = PoolMemory()
    spec = pool()
    for second, busy in ((0, 9), (100, 6), (200, 3), (350, 0)):
        observation = observe(9, work(0), workers=workers(*[1] * busy, *[0] * (9 - busy)))
        decision, memory = decide(spec, observation, memory, START + second)

    # At 350 s the nine of 100 s ago have just expired... they were wanted until 100 s: 250 s ago.
    assert decision.action is Action.HOLD
    assert decision.reason is Reason.SCALE_IN_WINDOW

    observation = observe(9, work(0))
    at_400, memory = decide(spec, observation, memory, START + 400)
    at_500, memory = decide(spec, observation, memory, START + 500)
    at_650, memory = decide(spec, observation, memory, START + 650)

    assert [each.replicas for each in (at_400, at_500, at_650)] == [6, 3, 0]
    assert "6 slots were wanted within the last 300 s" in at_400.summary


def test_demand_between_two_looks_holds_until_the_second():
    """Nine were wanted from 0 s on; at 250 s it is found that none are: they were needed until then."""
    spec = pool()
    busy = observe(9, work(0), workers=workers(*[1] * 9))
    _, memory = decide(spec, busy, PoolMemory(), START)

    _, memory = decide(spec, observe(9, work(0)), memory, START + 250)
    soon, memory = decide(spec, observe(9, work(0)), memory, START + 549)
    later, _ = decide(spec, observe(9, work(0)), memory, START + 550)

    assert (soon.action, later.action) == (Action.HOLD, Action.SCALE_IN)


def test_the_next_look_is_told_when_the_window_ends():
    spec, observation = pool(), observe(9, work(0))
    _, memory = decide(spec, observe(9, work(0), workers=workers(*[1] * 9)), PoolMemory(), START)

    decision, _ = decide(spec, observation, memory, START + 10)

    assert decision.recheck_seconds == 5.0  # zero is confirmed then
    decision, _ = seen_for(100, spec, observation)
    assert decision.recheck_seconds == 200.0


def test_steps_bound_how_many_leave_at_once():
    decision, _ = seen_for(301, pool(scale_in_max_step=2), observe(9, work(0)))

    assert (decision.action, decision.replicas) == (Action.SCALE_IN, 7)
    assert "at most 2 leave at once" in decision.summary


def test_a_rollout_stops_a_scale_in_except_to_zero():
    some = observe(9, work(0), workers=workers(1, *[0] * 8), rollout_in_progress=True)
    none = observe(9, work(0), rollout_in_progress=True)

    held, _ = seen_for(301, pool(), some)
    ended, _ = seen_for(301, pool(), none)

    assert (held.action, held.reason) == (Action.HOLD, Reason.ROLLOUT_IN_PROGRESS)
    assert (ended.action, ended.replicas) == (Action.SCALE_IN, 0)


def test_a_rollout_stops_a_scale_in_to_zero_that_takes_one_step_at_a_time():
    held, _ = seen_for(301, pool(scale_in_max_step=1), observe(5, work(0), rollout_in_progress=True))

    assert (held.action, held.replicas, held.reason) == (Action.HOLD, 5, Reason.ROLLOUT_IN_PROGRESS)


samples = st.lists(
    st.tuples(st.floats(min_value=0.0, max_value=40.0), st.integers(min_value=0, max_value=10_000)),
    min_size=1,
    max_size=300,
)


@given(samples, st.sampled_from([1.0, 15.0, 300.0, 86_400.0]))
def test_the_window_knows_the_greatest_demand_of_its_time_and_hardly_more(steps, idle):
    window, now = (), 1000.0
    held: list[tuple[float, float, int]] = []  # from, until, slots
    for wait, slots in steps:
        now += wait
        if held:
            held[-1] = (held[-1][0], now, held[-1][2])
        held.append((now, now, slots))
        window = remember(window, slots, now, idle)

        least = max(slots for _, until, slots in held if now - until < idle)
        most = max(slots for _, until, slots in held if now - until < idle * (1 + 1 / 64))
        assert least <= highest(window) <= most


@given(st.integers(min_value=100, max_value=2000), st.sampled_from([15, 300, 86_400]))
def test_the_memory_stays_small_under_demand_that_falls_for_ever(count, idle):
    window, now = (), 0.0
    for number in range(count):
        now += idle / count * 3
        window = remember(window, 10_000_000 - number, now, idle)

    assert len(window) <= 67
