"""A budget lowered below what a queued task may use by its own estimate: it waits alone, the others go on."""

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig, check
from leadsman.reasons import Reason
from leadsman.wire.capabilities import BudgetRules, BudgetWindow, CapabilityConfig, OnExhausted
from leadsman.wire.costs import Usage as WireUsage
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.usage import Estimate, Usage

BIG = {"estimate": Estimate(tokens=500)}


def rules(tokens: int | None = None, **fields) -> CapabilityConfig:
    budget = BudgetRules(window=BudgetWindow.HOUR, tokens=tokens, estimate=WireUsage(tokens=10), **fields)
    return CapabilityConfig(name=CAPABILITY, budget=budget, backoff_seconds=0)


def lowered(*submit: dict, tokens: int = 100, **options) -> tuple[Rig, list[str]]:
    """A queue with these tasks, under a budget that was larger when they were accepted."""
    rig = Rig(rules(1000), **options)
    ids = [rig.submit(**fields).id for fields in submit]
    rig.configure(rules(tokens))
    check(rig.core)
    return rig, ids


def explained(rig: Rig, task_id: str):
    return rig.core.explain(task_id, rig.now)


def test_those_behind_it_go_on_and_it_says_why_it_waits():
    rig, (big, small) = lowered(BIG, {})
    stats = rig.stats()
    assert (stats.ready, stats.waiting, stats.leasable) == (2, 1, 1)
    assert stats.blocked == {Reason.ESTIMATE_ABOVE_BUDGET: 1}
    assert rig.lease_one().task_id == small
    standing = explained(rig, big)
    assert (standing.reason, standing.setting) == (Reason.ESTIMATE_ABOVE_BUDGET, "budget")
    assert "may use 500 tokens by its estimate, and the queue 100" in standing.summary
    assert "raise the budget, or cancel the task" in standing.summary
    check(rig.core)


def test_no_worker_is_started_for_it():
    rig, _ = lowered(BIG, BIG)
    stats = rig.stats()
    assert (stats.waiting, stats.leasable, stats.oldest_age_seconds) == (0, 0, None)
    rig.configure(rules(100))
    rig.park()
    assert (rig.stats().leasable, rig.core.next_deadline() > rig.now) == (0, True)


def test_it_takes_the_place_its_seq_gives_it_when_the_budget_is_raised():
    rig, (first, big, last) = lowered({}, BIG, {})
    rig.configure(rules(1000))
    assert [lease.task_id for lease in rig.lease(slots=3)] == [first, big, last]
    check(rig.core)


def test_it_goes_when_the_budget_is_taken_away():
    rig, (big,) = lowered(BIG)
    call = rig.park()
    rig.configure(CapabilityConfig(name=CAPABILITY))
    assert rig.got(call) == [big]


def test_a_restart_finds_it_again():
    rig, (big, small) = lowered(BIG, {})
    rig.restart()
    assert rig.lease_one().task_id == small
    assert explained(rig, big).reason is Reason.ESTIMATE_ABOVE_BUDGET
    check(rig.core)


def test_one_that_was_delayed_or_came_back_is_passed_over_too():
    rig, (later, failed) = lowered(BIG | {"delay_seconds": 50.0}, BIG, tokens=600)
    granted = rig.lease_one()
    rig.configure(rules(100))
    rig.nack(granted, usage=Usage())
    rig.wait(60)
    small = rig.submit().id
    assert rig.stats().blocked == {Reason.ESTIMATE_ABOVE_BUDGET: 2}
    assert rig.lease_one().task_id == small
    rig.configure(rules(2000))
    assert [lease.task_id for lease in rig.lease("w2", slots=2)] == [later, failed]
    check(rig.core)


@pytest.mark.parametrize("end", ["cancel", "expire", "stop its run", "unlist its queue"])
def test_it_can_end_like_any_other(end):
    rig, (big,) = lowered(BIG | {"ttl_seconds": 100.0, "run_id": "r"})
    if end == "cancel":
        rig.do(c.Cancel(NAMESPACE, big))
    elif end == "expire":
        rig.wait(101)
    elif end == "stop its run":
        rig.do(c.CancelRun(NAMESPACE, "r"))
    else:
        rig.configure()
        rig.configure(CapabilityConfig(name="other"))
        assert (NAMESPACE, CAPABILITY) in rig.core.state.queues
        rig.do(c.Cancel(NAMESPACE, big))
    check(rig.core)
    assert rig.record(big).ended.state in {TaskState.CANCELLED, TaskState.EXPIRED}
    assert sum(queue.depth for queue in rig.core.state.queues.values()) == 0


def test_it_counts_for_admission():
    rig, _ = lowered(BIG, BIG)
    full = rules(100).model_copy(update={"max_depth": 1, "max_depth_per_tenant": 1})
    rig.configure(full)
    assert rig.submit().as_dict()["reason"] == "pool saturated"


def test_the_cap_of_its_tenant_holds_up_only_itself():
    rig = Rig(rules(1000))
    big, small, other = (
        rig.submit(tenant=name, **fields).id for name, fields in (("a", BIG), ("a", {}), ("b", {}))
    )
    rig.configure(rules(1000, tenant_tokens=100))
    assert {lease.task_id for lease in rig.lease(slots=3)} == {small, other}
    assert "and a tenant 100" in explained(rig, big).summary
    check(rig.core)


def test_interactive_work_goes_over_the_budget_unless_all_is_to_stop():
    interactive = BIG | {"task_class": TaskClass.INTERACTIVE}
    rig, (big,) = lowered(interactive)
    assert rig.lease_one().task_id == big
    rig, (big,) = lowered(interactive)
    rig.configure(rules(100, on_exhausted=OnExhausted.PAUSE_ALL))
    assert rig.lease() == []
    assert explained(rig, big).reason is Reason.ESTIMATE_ABOVE_BUDGET


def test_very_many_of_them_are_passed_over_step_by_step_and_none_is_stuck():
    rig = Rig(rules(1000), settings=Settings(timers_per_step=10, reclaim_jitter=0.0))
    rig.submit(35, **BIG)
    small = rig.submit().id
    rig.configure(rules(100))
    call = rig.park()
    assert rig.got(call) is None
    rig.wait(1.0)
    assert rig.got(call) == [small]
    assert rig.stats().blocked == {Reason.ESTIMATE_ABOVE_BUDGET: 35}
    check(rig.core)
