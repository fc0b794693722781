"""Budgets: what is reserved, what is charged, what waits, and when it may go on."""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rig import CAPABILITY, NAMESPACE, Rig, check, picture
from leadsman.reasons import Reason
from leadsman.wire.capabilities import BudgetRules, BudgetWindow, CapabilityConfig, OnExhausted
from leadsman.wire.costs import Usage as WireUsage
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import commands as c
from leadsman_broker.core.accounts import window_at
from leadsman_broker.core.results import Accepted, Refused
from leadsman_broker.core.usage import Estimate, Usage

TENANTS = ("", "a", "b")


def rules(*, tokens=None, window=BudgetWindow.HOUR, estimate=10, name=CAPABILITY, **fields) -> CapabilityConfig:
    budget = BudgetRules(window=window, tokens=tokens, estimate=WireUsage(tokens=estimate), **fields)
    return CapabilityConfig(name=name, budget=budget, max_attempts=50, backoff_seconds=0)


def at_the_start_of_an_hour(rig: Rig) -> Rig:
    """Let the window turn, so that a test knows how much of it is left."""
    rig.wait(3_600 - rig.now % 3_600)
    return rig


def budgeted(**fields) -> Rig:
    return at_the_start_of_an_hour(Rig(rules(**fields)))


def account(rig: Rig, tenant: str | None = None) -> tuple[int, int]:
    """Tokens settled and reserved."""
    found = rig.core.budget((NAMESPACE, CAPABILITY)).account(tenant)
    return found.settled.tokens, found.reserved.tokens


def blocked(rig: Rig) -> int:
    return rig.stats().blocked.get(Reason.BUDGET.value, 0)


def ack(rig: Rig, granted, tokens: int | None = None):
    usage = None if tokens is None else Usage(tokens)
    return rig.do(c.Ack(NAMESPACE, granted.token, usage=usage))


def test_the_estimate_is_reserved_at_lease_and_what_was_used_is_settled_at_the_end():
    rig = budgeted(tokens=100)
    rig.submit()
    granted = rig.lease_one()
    assert account(rig) == (0, 10)
    rig.beat("w1", granted.token, usage={granted.token: Usage(4)})
    assert account(rig) == (0, 10)
    rig.beat("w1", granted.token, usage={granted.token: Usage(25)})
    assert account(rig) == (0, 25)
    ack(rig, granted, 30)
    assert account(rig) == (30, 0)


def test_five_calls_at_once_do_not_pass_a_cap_that_is_nearly_used_up():
    rig = budgeted(tokens=35)
    rig.submit(5)
    assert len(rig.lease(slots=5)) == 3
    assert account(rig) == (0, 30)
    assert (blocked(rig), rig.stats().leasable) == (2, 0)


def test_background_waits_until_money_comes_back():
    rig = budgeted(tokens=10)
    rig.submit(2)
    granted = rig.lease_one("w1")
    waiting = rig.park("w2")
    assert rig.got(waiting) is None
    ack(rig, granted, 0)
    assert len(rig.got(waiting)) == 1


def test_a_new_window_starts_from_zero_and_wakes_what_waits():
    rig = budgeted(tokens=10)
    rig.submit(2)
    ack(rig, rig.lease_one("w1"), 10)
    assert rig.lease("w2") == []
    rig.wait(3_590)
    waiting = rig.park("w2")
    assert (rig.got(waiting), blocked(rig)) == (None, 1)
    rig.wait(11)
    assert len(rig.got(waiting)) == 1
    assert account(rig) == (0, 10)


def test_usage_belongs_to_the_window_of_its_lease():
    rig = budgeted(tokens=100)
    rig.submit(2)
    first = rig.lease_one("w1")
    for _ in range(200):
        rig.wait(20)
        rig.beat("w1", first.token, usage={first.token: Usage(50)})
    assert account(rig) == (0, 0)
    second = rig.lease_one("w2")
    ack(rig, first, 90)
    assert account(rig) == (0, 10)
    ack(rig, second, 3)
    assert account(rig) == (3, 0)


def test_interactive_goes_over_the_budget_and_is_counted():
    rig = budgeted(tokens=10)
    rig.submit()
    rig.lease_one("w1")
    rig.submit()
    rig.submit(task_class=TaskClass.INTERACTIVE)
    (granted,) = rig.lease("w2", slots=2)
    assert granted.task_class is TaskClass.INTERACTIVE
    assert account(rig) == (0, 20)
    assert rig.core.totals((NAMESPACE, CAPABILITY)).over_budget == 1


def test_pause_all_stops_interactive_too():
    rig = budgeted(tokens=10, on_exhausted=OnExhausted.PAUSE_ALL)
    rig.submit(2, task_class=TaskClass.INTERACTIVE)
    assert len(rig.lease(slots=2)) == 1
    assert blocked(rig) == 1


def test_a_tenant_at_its_cap_waits_alone():
    rig = budgeted(tokens=100, tenant_tokens=20)
    rig.submit(3, tenant="a")
    rig.submit(1, tenant="b")
    rig.submit(1)
    granted = rig.lease(slots=9)
    assert sorted(lease.tenant for lease in granted) == ["", "a", "a", "b"]
    assert (account(rig), account(rig, "a"), account(rig, "b")) == ((0, 40), (0, 20), (0, 10))
    assert blocked(rig) == 1


def test_without_room_at_one_level_nothing_is_reserved_at_the_other():
    rig = budgeted(tokens=100, tenant_tokens=10)
    rig.submit(2, tenant="a")
    rig.lease(slots=2)
    assert (account(rig), account(rig, "a")) == ((0, 10), (0, 10))


def test_money_and_tokens_are_both_kept_to():
    budget = BudgetRules(
        window=BudgetWindow.HOUR, tokens=1_000, cost_micros=50, estimate=WireUsage(tokens=1, cost_micros=20)
    )
    rig = Rig(CapabilityConfig(name=CAPABILITY, budget=budget))
    rig.submit(5)
    assert len(rig.lease(slots=5)) == 2


def test_a_task_may_say_what_it_needs_and_what_it_does_not_say_is_as_the_queue_says():
    budget = BudgetRules(
        window=BudgetWindow.HOUR, tokens=100, cost_micros=100, estimate=WireUsage(tokens=10, cost_micros=5)
    )
    rig = at_the_start_of_an_hour(Rig(CapabilityConfig(name=CAPABILITY, budget=budget)))
    rig.submit(estimate=Estimate(tokens=60))
    rig.lease_one()
    found = rig.core.budget((NAMESPACE, CAPABILITY)).account(None)
    assert found.reserved == Usage(60, 5)


def test_an_estimate_above_the_cap_is_refused_where_it_is_submitted():
    rig = budgeted(tokens=100, tenant_tokens=50)
    assert isinstance(rig.submit(estimate=Estimate(tokens=100)), Accepted)
    for refused in (
        rig.submit(estimate=Estimate(tokens=101)),
        rig.submit(estimate=Estimate(tokens=51), tenant="a"),
    ):
        assert isinstance(refused, Refused)
        assert refused.code == "estimate_too_large"


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"tokens": 5, "estimate": {}}, "needs an estimate of tokens"),
        ({"tenant_cost_micros": 5, "estimate": {"tokens": 1}}, "needs an estimate of cost_micros"),
        ({"tokens": 5, "estimate": {"tokens": 6}}, "above the budget"),
    ],
)
def test_a_budget_that_could_not_work_is_no_configuration(budget, words):
    with pytest.raises(ValueError, match=words):
        BudgetRules.model_validate({"window": "Day", **budget})


def test_a_worker_that_dies_silently_leaves_the_estimate_and_its_late_report_corrects_it():
    rig = budgeted(tokens=100)
    rig.submit()
    lost = rig.lease_one("w1")
    rig.wait(lost.lease_seconds + 1)
    assert account(rig) == (10, 0)
    rig.lease_one("w2")
    assert account(rig) == (10, 10)
    rig.beat("w1", lost.token, usage={lost.token: Usage(3)})
    assert account(rig) == (3, 10)
    rig.beat("w1", lost.token, usage={lost.token: Usage(40)})
    assert account(rig) == (40, 10)


def test_a_worker_that_dies_after_a_report_leaves_what_it_reported():
    rig = budgeted(tokens=100)
    rig.submit()
    lost = rig.lease_one("w1")
    rig.beat("w1", lost.token, usage={lost.token: Usage(3)})
    rig.wait(lost.lease_seconds + 1)
    assert account(rig) == (3, 0)


@pytest.mark.parametrize(("usage", "charged"), [(None, 10), (Usage(0), 0), (Usage(4), 4)])
def test_an_attempt_that_ends_without_a_word_is_charged_its_estimate(usage, charged):
    rig = budgeted(tokens=100)
    rig.submit(2)
    rig.do(c.Ack(NAMESPACE, rig.lease_one().token, usage=usage))
    rig.do(c.Nack(NAMESPACE, rig.lease_one().token, "Boom", usage=usage))
    assert account(rig) == (2 * charged, 0)


def test_what_is_given_back_without_a_word_costs_nothing():
    rig = budgeted(tokens=100)
    rig.submit()
    rig.release(rig.lease_one())
    assert account(rig) == (0, 0)


def test_a_restart_remembers_what_was_settled_and_reserved():
    rig = budgeted(tokens=40, tenant_tokens=30)
    rig.submit(5, tenant="a")
    first, second, _ = rig.lease(slots=5)
    ack(rig, first, 9)
    rig.beat("w1", second.token, usage={second.token: Usage(11)}, slots=5)
    before = picture(rig.core)
    rig.restart()
    assert picture(rig.core) == before
    assert (account(rig), account(rig, "a")) == ((9, 21), (9, 21))
    assert rig.lease("w3") == []


def test_a_restart_in_the_next_window_starts_from_zero():
    rig = budgeted(tokens=10)
    rig.submit(2)
    ack(rig, rig.lease_one(), 10)
    rig.restart(3_600)
    assert account(rig) == (0, 0)
    assert len(rig.lease("w2")) == 1


def test_a_raised_budget_wakes_what_waits_and_keeps_the_count():
    rig = budgeted(tokens=10)
    rig.submit(2)
    rig.lease_one("w1")
    waiting = rig.park("w2")
    rig.configure(rules(tokens=20))
    assert len(rig.got(waiting)) == 1
    assert account(rig) == (0, 20)


def test_a_budget_that_is_taken_away_holds_nothing_back():
    rig = budgeted(tokens=10)
    rig.submit(2)
    granted = rig.lease_one("w1")
    waiting = rig.park("w2")
    rig.configure(CapabilityConfig(name=CAPABILITY))
    assert len(rig.got(waiting)) == 1
    ack(rig, granted, 5)
    rig.configure(rules(tokens=10))
    assert account(rig) == (0, 0)


@pytest.mark.parametrize(
    ("window", "now", "starts", "ends"),
    [
        (BudgetWindow.HOUR, "2026-03-01T05:59:59", "2026-03-01T05:00:00", "2026-03-01T06:00:00"),
        (BudgetWindow.DAY, "2026-02-28T23:59:59", "2026-02-28T00:00:00", "2026-03-01T00:00:00"),
        (BudgetWindow.MONTH, "2024-02-29T12:00:00", "2024-02-01T00:00:00", "2024-03-01T00:00:00"),
        (BudgetWindow.MONTH, "2026-12-31T23:59:59", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
    ],
)
def test_windows_are_fixed_in_utc(window, now, starts, ends):
    def at(text: str) -> float:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()

    assert window_at(window, at(now)) == (at(starts), at(ends))
    assert window_at(window, at(ends))[0] == at(ends)


def test_a_queue_without_a_budget_books_nothing_for_it():
    rig = Rig()
    rig.submit()
    rig.ack(rig.lease_one())
    assert (rig.tables.ledger, rig.tables.budgets) == ({}, {})


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_reservations_are_those_of_live_leases_and_background_passes_no_cap(seed):
    dice = random.Random(seed)
    rig = Rig(rules(tokens=60, tenant_tokens=35))
    held: list = []
    for _ in range(60):
        action = dice.randrange(9)
        if action <= 1:
            rig.submit(dice.randrange(1, 4), tenant=dice.choice(TENANTS), estimate=_estimate(dice))
        elif action <= 3:
            held += rig.lease(f"w{dice.randrange(3)}", slots=4, held=[lease.token for lease in held])
        elif action == 4:
            rig.wait(dice.choice([1, 40, 1_000, 3_700]))
        elif action == 5:
            rig.restart(dice.choice([0, 40, 3_700]))
        elif held:
            lease = held.pop(dice.randrange(len(held)))
            usage = dice.choice([None, Usage(dice.randrange(11))])
            command = dice.choice(
                [
                    c.Ack(NAMESPACE, lease.token, usage=usage),
                    c.Nack(NAMESPACE, lease.token, "E", usage=usage),
                    c.Release(NAMESPACE, lease.token, usage=usage),
                ]
            )
            rig.do(command)
        check(rig.core)
        for tenant in (None, "a", "b"):
            assert sum(account(rig, tenant)) <= (60 if tenant is None else 35)


def _estimate(dice: random.Random) -> Estimate | None:
    return dice.choice([None, Estimate(tokens=dice.randrange(10, 36))])


def used_up(**fields) -> Rig:
    rig = budgeted(tokens=15, **fields)
    rig.submit(21)
    ack(rig, rig.lease_one(), tokens=15)
    return rig


def test_what_a_used_up_budget_holds_back_is_no_demand_though_no_worker_asks():
    rig = used_up()
    assert (rig.stats().waiting, blocked(rig)) == (0, 20)
    rig.configure(rules(tokens=15).model_copy(update={"startup_seconds": 7.0}))
    assert (rig.stats().waiting, blocked(rig)) == (0, 20)
    rig.restart()
    assert (rig.stats().waiting, rig.stats().leasable, blocked(rig)) == (0, 0, 20)
    rig.submit()
    assert (rig.stats().waiting, blocked(rig)) == (0, 21)
    check(rig.core)
    at_the_start_of_an_hour(rig)
    assert (rig.stats().waiting, blocked(rig)) == (21, 0)


def test_interactive_work_before_it_hides_no_used_up_budget():
    rig = used_up()
    rig.submit(2, task_class=TaskClass.INTERACTIVE)
    rig.restart()
    assert (rig.stats().waiting, blocked(rig)) == (2, 20)
    assert len(rig.lease(slots=5)) == 2


def test_an_end_that_frees_too_little_starts_no_worker():
    rig = budgeted(tokens=25)
    rig.submit(20)
    first, _ = rig.lease(slots=2)
    ack(rig, first, tokens=9)
    assert (rig.stats().waiting, blocked(rig)) == (0, 18)


def test_those_behind_a_task_of_a_high_estimate_go_on_when_it_is_cancelled():
    rig = budgeted(tokens=100)
    rig.submit()
    ack(rig, rig.lease_one(), tokens=30)
    high = rig.submit(priority=3, estimate=Estimate(80, None))
    rig.submit(5)
    assert rig.lease(slots=3) == []
    rig.do(c.Cancel(NAMESPACE, high.id))
    assert len(rig.lease(slots=3)) == 3


def explained(rig: Rig, task) -> str:
    standing = rig.core.explain(task.id, rig.now)
    assert standing.reason is Reason.BUDGET
    return standing.summary


def test_explain_tells_what_the_budget_lacks_and_when_it_has_room_again():
    rig = budgeted(tokens=15, tenant_tokens=12)
    rig.submit()
    ack(rig, rig.lease_one(), tokens=9)
    waits = rig.submit()
    words = (
        "9 of 15 tokens of the budget are used or reserved, and an attempt may use 10; the next window begins in"
    )
    assert f"{words} 3600 s" in explained(rig, waits)


def test_explain_tells_of_a_tenant_without_room_before_a_ceiling():
    rig = Rig(rules(tenant_tokens=12).model_copy(update={"max_in_flight": 1}))
    _, waits = rig.submit(2, tenant="a")
    rig.submit(2, tenant="b")
    ack(rig, rig.lease_one())
    rig.lease()
    assert "of the budget of its tenant are used or reserved" in explained(rig, waits)
    assert rig.stats().leased == 1


def test_explain_tells_the_estimate_that_has_no_room_in_this_window_from_those_behind_it():
    rig = budgeted(tokens=100)
    rig.submit()
    ack(rig, rig.lease_one(), tokens=30)
    high = rig.submit(priority=3, estimate=Estimate(80, None))
    behind = rig.submit()
    assert "30 of 100 tokens of the budget are used or reserved, and an attempt may use 80" in explained(rig, high)
    assert "one before it has an estimate for which the budget has no room" in explained(rig, behind)


def spent(rig: Rig, tenant: str = "") -> Rig:
    """A budget of ten tokens that is used up, and a task that waits for the next window."""
    rig.submit(2, tenant=tenant)
    ack(rig, rig.lease_one(), tokens=10)
    assert (blocked(rig), rig.stats().oldest_age_seconds) == (1, None)
    return rig


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize(("level", "tenant"), [("tokens", ""), ("tenant_tokens", "acme")])
def test_the_age_of_what_waited_for_money_begins_with_the_window_after_a_restart_too(level, tenant, seen):
    """Whether the broker was there when the window turned, or not."""
    rig = spent(budgeted(**{level: 10}), tenant)
    if seen:
        rig.wait(3_600)
        rig.restart(7.0)
    else:
        rig.restart(3_607.0)
    assert rig.stats().oldest_age_seconds == 7
    rig.wait(0.0)
    rig.restart(3.0)
    assert rig.stats().oldest_age_seconds == 10


def test_what_did_not_wait_for_money_keeps_its_age_over_a_window_and_a_restart():
    rig = spent(budgeted(tenant_tokens=10), "acme")
    rig.submit(tenant="zoo")
    rig.wait(3_600)
    rig.restart(7.0)
    assert rig.stats().oldest_age_seconds == 3_607


def test_what_is_kept_of_tenants_that_waited_does_not_grow_from_day_to_day():
    rig = budgeted(tenant_tokens=10)
    for number in range(4):
        spent(rig, f"t{number}")
        rig.wait(3_600)
        ack(rig, rig.lease_one())
    rig.wait(90_000)
    assert rig.tables.openings == {}


def test_an_attempt_longer_than_the_ledger_is_kept_stays_charged_over_a_restart():
    rig = at_the_start_of_an_hour(Rig(rules(tokens=100).model_copy(update={"ledger_retention_seconds": 5.0})))
    rig.submit(run_id="r")
    granted = rig.lease_one()
    for _ in range(4):
        rig.beat("w1", granted.token, usage={granted.token: Usage(20)})
        rig.wait(20)
    rig.restart()
    assert account(rig) == (0, 20)
    ack(rig, granted, 30)
    assert account(rig) == (30, 0)
    assert rig.store.run(NAMESPACE, "r").usage == Usage(30)
