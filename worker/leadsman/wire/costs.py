"""What attempts used, and what capabilities, tenants, runs and tasks cost."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from leadsman.amounts import MAX_USAGE
from leadsman.wire.base import Reply, Request

Amount = Annotated[int, Field(ge=0, le=MAX_USAGE)]


class Usage(Request):
    """Totals of one attempt so far. Only a larger one counts, so a report may be repeated."""

    tokens: Amount = 0
    cost_micros: Amount = 0
    """Money in millionths of whatever unit the fleet counts in."""


class Estimate(Request):
    """What an attempt may use; what is absent is as its queue says."""

    tokens: Amount | None = None
    cost_micros: Amount | None = None


class UsageView(Reply):
    """What a task has used, all attempts together."""

    tokens: int
    cost_micros: int


class RemainingBudget(Reply):
    """How much more an attempt may use, by the tightest of its run's caps and its tenant's and queue's budgets.

    What was set aside for it and it has not reported is its own; the rest is shared with whoever runs under the
    same cap. Never below 0. Absent: no limit.
    """

    tokens: int | None = None
    cost_micros: int | None = None


class BudgetLevel(Reply):
    """What one level of a budget has used in the window: the queue, or one of its tenants."""

    tenant: str | None = None
    """Absent: the queue."""
    max_tokens: int | None = None
    tokens: int
    """Of attempts that have ended; so is `cost_micros`."""
    reserved_tokens: int
    """For attempts that run; so is `reserved_cost_micros`."""
    max_cost_micros: int | None = None
    cost_micros: int
    reserved_cost_micros: int


class BudgetView(Reply):
    """A budget in its present window."""

    namespace: str
    capability: str
    window: str
    starts_at: float
    """Broker wall clock, seconds since the epoch; so is the next."""
    ends_at: float
    levels: list[BudgetLevel]
    """The queue first, then the tenants that have used most."""


class CostBy(StrEnum):
    """What the attempts of one line have in common."""

    CAPABILITY = "capability"
    TENANT = "tenant"
    RUN = "run"
    TASK = "task"


class CostLine(Reply):
    """What the attempts of one item used together, those of superseded deliveries included.

    Counted are the attempts that reported usage, and all that lost their lease.
    """

    item: str
    """The capability, tenant, run or task; empty for what has none, and for the total."""
    attempts: int
    running: int
    completed: int
    failed: int
    released: int
    lost: int
    """Attempts whose lease was lost: what they did was done again, or for nothing."""
    tokens: int
    cost_micros: int
    lost_tokens: int
    lost_cost_micros: int
    tokens_per_completed: float | None = None
    """All tokens over completed tasks; absent when none completed. So is the next."""
    cost_micros_per_completed: float | None = None
    duplicate_share: float | None = None
    """Lost over all, by money, or by tokens where no money was reported; absent when nothing was used."""
    reclaim_rate: float | None = None
    """Lost attempts over attempts that ended; absent when none did."""


class CostReport(Reply):
    """Attempts leased in the time asked for, the dearest item first."""

    since: float
    """Broker wall clock, seconds since the epoch; with the next."""
    until: float
    by: CostBy
    total: CostLine
    items: list[CostLine]
    """At most as many as asked for; the total is of all."""
