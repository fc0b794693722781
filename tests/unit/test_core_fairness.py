"""Whose task goes next: caps, turns by weight, and what each lets others have. All on the virtual clock."""

import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rig import CAPABILITY, NAMESPACE, Rig, check, fairness
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.tenants import tenant_cap

INTERACTIVE, BACKGROUND = TaskClass.INTERACTIVE, TaskClass.BACKGROUND


def rig_of(**fields) -> Rig:
    return Rig(CapabilityConfig(name=CAPABILITY, **fields))


def tenants_of(leases) -> Counter[str]:
    return Counter(lease.tenant for lease in leases)


def test_a_small_tenant_waits_less_than_twice_as_long_beside_a_large_one_as_alone():
    assert fairness.small_tenant_wait_ratio() < 2.0


def test_eight_equal_tenants_are_served_equally():
    assert fairness.jain_of(fairness.equal_tenants(8)) >= 0.95


def test_interactive_tasks_start_within_one_task_time_while_background_floods():
    load = fairness.interactive_beside_flood()
    waits = load.waits["", INTERACTIVE]
    assert len(waits) == 30
    assert max(waits) <= fairness.LONGEST_WORK


def test_with_use_idle_a_flood_takes_what_is_idle_and_gives_it_up_as_tasks_end():
    load = fairness.small_beside_large(large=500, over_cap="UseIdle")
    assert load.most_in_flight["large"] == fairness.SLOTS
    assert max(load.waits["small", BACKGROUND]) <= fairness.LONGEST_WORK


def test_with_wait_a_flood_stays_at_its_cap_although_slots_are_idle():
    load = fairness.small_beside_large(large=500)
    assert load.most_in_flight["large"] == fairness.SLOTS // 4


@given(st.integers(0, 2**31 - 1), st.integers(1, 100))
def test_the_cap_is_the_requirements_in_exact_arithmetic(slots, percent):
    rules = CapabilityConfig(name="c", max_slots=slots, tenant_share_percent=percent)
    assert tenant_cap(rules, "acme") == max(1, int(Fraction(percent, 100) * slots))


def test_nobody_is_capped_while_it_is_unknown_what_pools_may_grow_to_and_the_untenanted_never_are():
    rig = rig_of()
    rig.submit(9, tenant="acme")
    assert len(rig.lease("w1", slots=9)) == 9
    rig = rig_of(max_slots=4)
    rig.submit(9)
    rig.submit(9, tenant="acme")
    assert tenants_of(rig.lease("w1", slots=20)) == {"": 9, "acme": 1}


def test_tenants_have_as_much_in_flight_as_their_weights_say():
    rig = rig_of(tenant_weights={"gold": 3})
    for tenant in ("gold", "a", "b"):
        rig.submit(50, tenant=tenant)
    assert tenants_of(rig.lease("w1", slots=25)) == {"gold": 15, "a": 5, "b": 5}


def test_with_one_slot_tenants_take_turns():
    rig = rig_of()
    for tenant in ("a", "b", "c"):
        rig.submit(4, tenant=tenant)
    order = []
    for _ in range(12):
        lease = rig.lease_one()
        order.append(lease.tenant)
        rig.ack(lease)
    assert order == ["a", "b", "c"] * 4


def test_one_that_always_comes_back_with_a_single_task_does_not_starve_one_with_many():
    rig = rig_of()
    rig.submit(10, tenant="many")
    order = []
    for _ in range(10):
        rig.submit(1, tenant="one")
        lease = rig.lease_one()
        order.append(lease.tenant)
        rig.ack(lease)
    assert order.count("many") == 5


def test_a_flood_of_high_priority_of_others_does_not_starve_the_low_one():
    rig = rig_of(lowest_band_every=4)
    low = rig.submit(tenant="low", priority=0)
    for number in range(20):
        rig.submit(tenant=f"t{number}", priority=9)
    leased = [lease.task_id for lease in rig.lease("w1", slots=4)]
    assert leased[3] == low.id


def test_the_turn_of_the_lowest_does_not_disturb_turns_within_one_priority():
    rig = rig_of(lowest_band_every=2)
    rig.submit(40, tenant="large")
    rig.submit(10, tenant="small")
    assert tenants_of(rig.lease("w1", slots=20)) == {"large": 10, "small": 10}


@pytest.mark.parametrize(
    "end",
    [
        lambda rig, lease: rig.ack(lease),
        lambda rig, lease: rig.nack(lease),
        lambda rig, lease: rig.release(lease, delay_seconds=60.0),
        lambda rig, _: rig.wait(31.0),
        lambda rig, _: rig.configure(CapabilityConfig(name=CAPABILITY, max_slots=40)),
        lambda rig, _: rig.configure(CapabilityConfig(name=CAPABILITY, max_slots=4, over_cap="UseIdle")),
    ],
    ids=["ack", "nack", "release", "reclaim", "more slots", "UseIdle"],
)
def test_a_capped_tenants_task_goes_to_a_waiting_worker_as_soon_as_it_may(end):
    rig = rig_of(max_slots=4, backoff_seconds=60)
    rig.submit(3, tenant="acme")
    lease = rig.lease_one("w1", slots=2)
    call = rig.park("w2", slots=1, wait=600.0)
    rig.beat("w2")
    assert rig.got(call) is None
    end(rig, lease)
    assert len(rig.got(call)) == 1
    check(rig.core)


def test_what_a_stale_holder_gives_back_a_second_time_frees_no_slot():
    rig = rig_of(max_slots=4, lease_seconds=10)
    rig.submit(5, tenant="acme")
    stale = rig.lease_one("w1")
    rig.wait(11)
    rig.lease_one("w2")
    for _ in range(3):
        assert not rig.release(stale).ok
        assert not rig.nack(stale).ok
        assert not rig.ack(stale).ok
    assert rig.lease("w3") == []
    check(rig.core)


def test_after_a_restart_a_tenant_has_what_it_had():
    rig = rig_of(max_slots=12)
    rig.submit(9, tenant="acme")
    first = rig.lease("w1", slots=3)
    assert len(first) == 3
    rig.restart()
    assert rig.lease("w2", slots=9) == []
    rig.ack(first[0])
    assert len(rig.lease("w2", slots=9)) == 1


def test_a_ready_task_does_not_wait_behind_a_later_retry_of_its_tenant():
    rig = rig_of(max_slots=4)
    rig.submit(2, tenant="acme")
    rig.nack(rig.lease_one("w1"), retry_after_seconds=3600)
    assert len(rig.lease("w2")) == 1


def test_cancelled_and_expired_heads_do_not_block_their_tenant():
    rig = rig_of(max_slots=8)
    dead = [rig.submit(tenant="acme"), rig.submit(tenant="acme", ttl_seconds=5)]
    alive = rig.submit(tenant="acme")
    rig.do(c.Cancel(NAMESPACE, dead[0].id))
    rig.freeze(6)
    assert [lease.task_id for lease in rig.lease("w1", slots=8)] == [alive.id]
    check(rig.core)


def calls_made(do: Callable[[], object]) -> int:
    """How many function calls something takes: a measure of work that no other load disturbs."""
    count = 0

    def note(_frame, event, _arg):
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


def picks_beside(blocked: int, delayed: int) -> int:
    """The work of ten deliveries while so many tenants are at their cap and so many tasks are not due."""
    rig = rig_of(max_slots=4, max_depth=10_000_000)
    for number in range(blocked):
        rig.submit(2, tenant=f"t{number}")
    assert len(rig.lease("other", slots=2 * blocked + 1)) == blocked
    for _ in range(delayed // 500):
        rig.submit(500, delay_seconds=3600)
    rig.submit(30)

    def serve():
        for _ in range(10):
            command = rig.call("w1")
            (answer,) = rig.core.step(
                [command], rig.store.read(rig.core.needs([command])), rig.now, rig.rand
            ).answers
            rig.core.step(
                [c.Ack(NAMESPACE, answer.leases[0].token)], rig.store.read(rig.core.needs([])), rig.now, rig.rand
            )

    serve()
    return calls_made(serve)


def test_a_pick_never_looks_at_blocked_tenants_nor_at_what_is_not_ready():
    few, many = picks_beside(3, 500), picks_beside(2_000, 20_000)
    assert many <= few * 1.1


def test_ten_thousand_tenants_are_served_at_the_price_of_a_few():
    def work(tenants: int) -> int:
        rig = rig_of(max_depth=10_000_000)
        for number in range(tenants):
            rig.submit(2, tenant=f"t{number}")
        call = rig.call("w1", slots=200)
        return calls_made(lambda: rig.do(call))

    assert work(10_000) <= work(200) * 1.5


def test_tenants_that_have_gone_are_forgotten():
    rig = rig_of()
    for number in range(6_000):
        rig.submit(tenant=f"t{number}")
        rig.ack(rig.lease_one())
    line = rig.core.state.queues[NAMESPACE, CAPABILITY].line
    assert len(line.tenants) <= 2_048


CLASSES = st.sampled_from([BACKGROUND, BACKGROUND, INTERACTIVE])


@settings(max_examples=60, deadline=None)
@given(
    moves=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b", "c"]), CLASSES, st.integers(0, 2)), max_size=60
    ),
    over_cap=st.sampled_from(["Wait", "UseIdle"]),
    ceiling=st.sampled_from([None, 3, 6]),
    every=st.sampled_from([0, 3]),
    reserve=st.sampled_from([0, 40]),
    dice=st.randoms(use_true_random=False),
)
def test_every_pick_is_the_one_that_a_naive_reading_of_the_rules_makes(
    moves, over_cap, ceiling, every, reserve, dice
):
    rules = CapabilityConfig(
        name=CAPABILITY,
        max_slots=8,
        over_cap=over_cap,
        max_in_flight=ceiling,
        lowest_band_every=every,
        interactive_reserve_percent=reserve,
        tenant_weights={"b": 2},
    )
    rig = Rig(rules)
    held, served, picks = [], Counter(), 0
    for kind, tenant, task_class, priority in moves:
        if kind <= 2:
            rig.submit(1, tenant=tenant, task_class=task_class, priority=priority)
        elif kind <= 4 or not held:
            expected = naive_choice(rig, rules, served, picks + 1, slots=9)
            leases = rig.lease("w1", slots=9, free=1)
            assert bool(leases) == bool(expected)
            if leases:
                assert leases[0].task_id in expected
                picks += 1
                served[leases[0].tenant] = picks
                held += leases
        else:
            getattr(rig, dice.choice(["ack", "release"]))(held.pop(dice.randrange(len(held))))
        check(rig.core)


def naive_choice(rig: Rig, rules: CapabilityConfig, served: Counter[str], pick: int, *, slots: int) -> set[str]:
    """The ids of the tasks that may go next; more than one only where tenants are equal in everything."""
    rows = [*rig.core.state.tasks.values()]
    leased = [row for row in rows if row.state is TaskState.LEASED]
    in_flight = Counter(row.tenant for row in leased)
    if rules.max_in_flight is not None and len(leased) >= rules.max_in_flight:
        return set()
    ready = [row for row in rows if row.state is TaskState.READY]
    if len(leased) == slots:
        return set()
    room = max(1, slots - slots * rules.interactive_reserve_percent // 100)
    if rules.interactive_reserve_percent and sum(row.task_class is BACKGROUND for row in leased) >= room:
        ready = [row for row in ready if row.task_class is INTERACTIVE]
    under = [row for row in ready if not row.tenant or in_flight[row.tenant] < 2]
    ready = under or (ready if rules.over_cap == "UseIdle" else [])
    if not ready:
        return set()
    bands = {row.priority for row in ready}
    if rules.lowest_band_every and pick % rules.lowest_band_every == 0 and len(bands) > 1:
        return {min((row for row in ready if row.priority == min(bands)), key=lambda row: row.seq).id}
    ready = [row for row in ready if row.priority == max(bands)]

    def load(tenant: str) -> tuple[Fraction, int]:
        return Fraction(in_flight[tenant], rules.tenant_weights.get(tenant, 1)), served[tenant]

    least = min(load(row.tenant) for row in ready)
    best = {row.tenant for row in ready if load(row.tenant) == least}
    return {min((row for row in ready if row.tenant == tenant), key=lambda row: row.seq).id for tenant in best}
