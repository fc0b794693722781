"""What an attempt is told it may still use: by its run, its tenant and its queue, the tightest."""

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import BudgetRules, BudgetWindow, CapabilityConfig
from leadsman.wire.costs import Usage as WireUsage
from leadsman_broker.core import commands as c
from leadsman_broker.core.rows import Caps
from leadsman_broker.core.usage import Remaining, Usage

RUN = "crawl-1"


def rig_with(**budget) -> Rig:
    rules = {}
    if budget:
        estimate = WireUsage(tokens=10, cost_micros=5)
        rules["budget"] = BudgetRules(window=BudgetWindow.HOUR, estimate=estimate, **budget)
    rig = Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0, **rules))
    rig.wait(3_600 - rig.now % 3_600)
    return rig


def beat(rig: Rig, name: str, granted, tokens: int | None = None) -> Remaining | None:
    usage = {} if tokens is None else {granted.token: Usage(tokens)}
    return rig.beat(name, granted.token, usage=usage).leases[0].remaining


def test_without_a_cap_nothing_is_said():
    rig = rig_with()
    rig.submit()
    rig.submit(run_id=RUN)
    first, second = rig.lease_one("w1"), rig.lease_one("w2")
    assert (first.remaining, second.remaining) == (None, None)
    assert beat(rig, "w2", second, 5) is None


def test_what_was_set_aside_for_an_attempt_is_its_own_until_it_has_used_it():
    rig = rig_with(tokens=25)
    rig.submit(2)
    first, second = rig.lease_one("w1"), rig.lease_one("w2")
    assert (first.remaining, second.remaining) == (Remaining(25), Remaining(15))
    assert beat(rig, "w1", first, 4) == Remaining(11)
    assert beat(rig, "w1", first, 14) == Remaining(1)
    assert beat(rig, "w2", second) == Remaining(11)  # its own ten, and one that is left
    assert beat(rig, "w1", first, 99) == Remaining(0)


def test_the_tightest_of_run_tenant_and_queue_binds_each_by_itself():
    rig = rig_with(tokens=100, tenant_tokens=60, tenant_cost_micros=500)
    rig.do(c.PutRun(NAMESPACE, RUN, Caps(tokens=40, cost_micros=900)))
    rig.submit(tenant="acme", run_id=RUN)
    rig.submit(tenant="acme")
    rig.submit()
    in_run, alone, of_tenant = (rig.lease_one(name) for name in ("w1", "w2", "w3"))
    assert in_run.remaining == Remaining(40, 500)
    assert alone.remaining == Remaining(90)
    assert of_tenant.remaining == Remaining(50, 495)
    assert beat(rig, "w1", in_run, 30) == Remaining(10, 495)


def test_a_run_is_left_what_all_its_attempts_have_not_used():
    rig = rig_with()
    rig.do(c.PutRun(NAMESPACE, RUN, Caps(tokens=100)))
    rig.submit(2, run_id=RUN)
    first, second = rig.lease_one("w1"), rig.lease_one("w2")
    assert beat(rig, "w1", first, 30) == Remaining(70)
    rig.do(c.Nack(NAMESPACE, first.token, "Boom", usage=Usage(35)))
    assert beat(rig, "w2", second, 5) == Remaining(60)
    assert rig.lease_one("w1").remaining == Remaining(60)


def test_an_attempt_of_the_window_before_is_not_bound_by_the_new_one():
    rig = rig_with(tokens=20)
    rig.submit(2)
    old = rig.lease_one("w1")
    for _ in range(361):
        rig.wait(10.0)
        left = beat(rig, "w1", old)
    assert left is None
    assert rig.lease_one("w2").remaining == Remaining(20)


def test_a_lease_told_again_says_what_is_left_now():
    rig = rig_with(tokens=100)
    rig.submit(2)
    first = rig.lease_one("w1", attempt="a")
    rig.lease_one("w2")
    (again,) = rig.lease("w1", attempt="a", held=[first.token])
    assert (first.remaining, again.remaining) == (Remaining(100), Remaining(90))


def test_a_lost_lease_is_told_nothing():
    rig = rig_with(tokens=100)
    rig.submit()
    lost = rig.lease_one("w1")
    rig.wait(lost.lease_seconds + 1)
    assert beat(rig, "w1", lost, 5) is None
