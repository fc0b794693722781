"""Budgets: what the attempts of a queue and of its tenants may use in a window.

An attempt is charged its estimate when its task is leased, at every level or not at all, and what it said it used
when it ends; all that hangs on its row in the ledger, so nothing leaks when a worker dies. An attempt counts in the
window in which it was leased, whenever it ends: a new window starts from zero.
"""

from typing import TYPE_CHECKING

from leadsman.reasons import Reason
from leadsman.wire.capabilities import OnExhausted
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import gates
from leadsman_broker.core.accounts import Budget
from leadsman_broker.core.gates import Hold
from leadsman_broker.core.rows import AttemptOutcome, BudgetRow, LedgerRow
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.tenants import BACKGROUND
from leadsman_broker.core.usage import NOTHING, Estimate, Usage

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State

BLOCKED = (Hold(Reason.BUDGET, whole_queue=True), Hold(Reason.BUDGET, whole_queue=False))


def gate(state: "State", queue: "Queue", row: TaskRow) -> Hold | None:
    """Hold back a task for which a level has no room; an interactive one goes over it, unless all is to stop."""
    budget = queue.budget
    if budget is None:
        return None
    if state.now >= budget.ends_at:
        turn(state, queue)
    held = _full_level(budget, row)
    if held is None or _waits(budget, row):
        return held
    queue.totals.over_budget += 1
    state.out.totals.add(queue)
    return None


def no_room(state: "State", queue: "Queue", row: TaskRow) -> Hold | None:
    """Say what `gate` would, and change nothing."""
    budget = queue.budget
    if budget is None or state.now >= budget.ends_at or not _waits(budget, row):
        return None
    return _full_level(budget, row)


def estimate_of(budget: Budget, own: Estimate | None) -> Usage:
    """Return what an attempt may use: what its task says, or the queue."""
    default = Usage(budget.rules.estimate.tokens, budget.rules.estimate.cost_micros)
    return own.over(default) if own is not None else default


def excessive(queue: "Queue", tenant: str, own: Estimate | None) -> str | None:
    """Say why a task could never be leased in any window; None: it could."""
    budget = queue.budget
    if budget is None or own is None:
        return None
    for level in budget.levels(tenant):
        for name, cap, estimate in zip(Usage._fields, budget.caps(level), own, strict=True):
            if cap is not None and estimate is not None and estimate > cap:
                whose = "the queue" if level is None else "a tenant"
                return f"an attempt may use {estimate} {name} by its estimate, and {whose} {cap} in all its window"
    return None


def describe(state: "State", row: TaskRow) -> str:
    """Say, for a person, what a task that is held back for the budget waits for."""
    budget = row.queue.budget
    if budget is None:
        return "it is held back"
    if (never := excessive(row.queue, row.tenant, row.estimate)) is not None:
        return f"{never}: raise the budget, or cancel the task"
    estimate = estimate_of(budget, row.estimate)
    for level in budget.levels(row.tenant):
        whose = "the budget" if level is None else "the budget of its tenant"
        charged = budget.account(level).charged
        for name, cap, used, more in zip(Usage._fields, budget.caps(level), charged, estimate, strict=True):
            if cap is not None and used + more > cap:
                turns_in = max(0.0, budget.ends_at - state.now)
                return (
                    f"{used} of {cap} {name} of {whose} are used or reserved, and an attempt may use {more}; "
                    f"the next window begins in {turns_in:.0f} s"
                )
    return "one before it has an estimate for which the budget has no room"


def charge(state: "State", before: LedgerRow | None, after: LedgerRow) -> None:
    """Follow a change of an attempt in the ledger."""
    queue = state.queues.get((after.namespace, after.capability))
    budget = queue.budget if queue is not None else None
    if queue is None or budget is None or after.reserved is None or after.leased_at < budget.starts_at:
        return
    settled, reserved = _parts(after)
    settled_before, reserved_before = _parts(before) if before is not None else (NOTHING, NOTHING)
    for tenant in budget.levels(after.tenant):
        account = budget.account(tenant)
        account.reserved = account.reserved.plus(reserved.less(reserved_before))
        if settled != settled_before:
            # What a budget of before was charged may be corrected in one that was made anew in the same window.
            account.settled = account.settled.plus(settled.less(settled_before)).raised_to(NOTHING)
            state.out.budgets[queue.key, tenant] = account
    if any(less < 0 for less in after.charge.less(before.charge if before is not None else NOTHING)):
        lift(state, queue, after.tenant)


def lift(state: "State", queue: "Queue", tenant: str | None = None) -> None:
    """Let tasks be asked about again: there may be room."""
    whole = tenant is None or any(Reason.BUDGET in held for held in queue.held)
    gates.lift(state, queue, Reason.BUDGET, tenant=None if whole else tenant)


def turn(state: "State", queue: "Queue") -> None:
    """Start a new window if it is time."""
    budget = queue.budget
    if budget is not None and state.now >= budget.ends_at:
        if budget.accounts():
            state.out.budgets_turned[queue.key] = budget.ends_at
        budget.turn(state.now)
        for key in [key for key in state.out.budgets if key[0] == queue.key]:
            del state.out.budgets[key]
        lift(state, queue)
    watch(state, queue)


def watch(state: "State", queue: "Queue") -> None:
    """Set the alarm for the end of the window."""
    state.alarms.set(("budget", queue.key), None if queue.budget is None else queue.budget.ends_at)


def follow(state: "State", queue: "Queue") -> None:
    """Take over a queue's rules. Another window starts its count anew, but for what runs."""
    rules = queue.rules.budget
    budget = queue.budget
    if budget is not None and (rules is None or budget.rules.window is not rules.window):
        forget(state, queue)
        budget = None
    if rules is None:
        queue.budget = None
    elif budget is not None:
        budget.rules = rules
    else:
        queue.budget = Budget(rules, state.now)
        reserve_again(state, queue)
    lift(state, queue)
    if queue.line.unbar():  # to be looked at again by the new caps
        state.alarms.sooner(("suspects", queue.key), state.now)
        state.hot[queue.key] = None
    watch(state, queue)


def forget(state: "State", queue: "Queue") -> None:
    """Drop what a budget was charged: it is taken away, or counts by another window, or its queue goes."""
    state.out.budgets_turned[queue.key] = float("inf")
    for key in [key for key in state.out.budgets if key[0] == queue.key]:
        del state.out.budgets[key]


def restore(state: "State", rows: list[BudgetRow]) -> None:
    """Bring budgets back, after the leases and what they reserved."""
    for queue in state.queues.values():
        if queue.rules.budget is not None:
            queue.budget = Budget(queue.rules.budget, state.now)
    for row in rows:
        owner = state.queues.get((row.namespace, row.capability))
        if owner is None or owner.budget is None:
            continue
        if row.starts_at == owner.budget.starts_at:
            owner.budget.account(row.tenant).settled = row.settled
        else:
            _turned_meanwhile(state, owner, owner.budget, row)
    for queue in state.queues.values():
        if queue.budget is not None:
            reserve_again(state, queue)
            watch(state, queue)


def _turned_meanwhile(state: "State", queue: "Queue", budget: Budget, row: BudgetRow) -> None:
    """Let what an exhausted window held back count from the begin of the next, which nobody saw begin."""
    used = row.settled.plus(estimate_of(budget, None))
    if all(cap is None or charged <= cap for cap, charged in zip(budget.caps(row.tenant), used, strict=True)):
        return
    at = budget.starts_at
    if row.tenant is None:
        queue.opened_at = max(queue.opened_at, at)
        state.out.opened(queue, queue.opened_at)
    else:
        queue.line.reopen(row.tenant, BACKGROUND, at)
        state.out.opened(queue, at, tenant=row.tenant)


def reserve_again(state: "State", queue: "Queue") -> None:
    """Charge a new budget for what runs and was leased in its window."""
    budget = queue.budget
    if budget is None:
        return
    for worker in state.workers.values():
        for seq in worker.leases:
            row = state.tasks[seq]
            lease = row.lease
            if row.queue is not queue or lease is None or lease.reserved is None:
                continue
            if lease.started_at >= budget.starts_at:
                for tenant in budget.levels(row.tenant):
                    account = budget.account(tenant)
                    account.reserved = account.reserved.plus(lease.usage.raised_to(lease.reserved))


def _full_level(budget: Budget, row: TaskRow) -> Hold | None:
    estimate = estimate_of(budget, row.estimate)
    for tenant in budget.levels(row.tenant):
        if not budget.has_room(tenant, estimate):
            return BLOCKED[tenant is not None]
    return None


def _waits(budget: Budget, row: TaskRow) -> bool:
    return row.task_class is TaskClass.BACKGROUND or budget.rules.on_exhausted is OnExhausted.PAUSE_ALL


def _parts(row: LedgerRow) -> tuple[Usage, Usage]:
    """Return what a row settles, and what it reserves."""
    return (NOTHING, row.charge) if row.outcome is AttemptOutcome.RUNNING else (row.charge, NOTHING)
