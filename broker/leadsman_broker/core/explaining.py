"""Why a live task stands where it stands. For a person who asks: it may look at every tenant of the queue."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, inf
from typing import TYPE_CHECKING

from leadsman.reasons import Reason
from leadsman.wire.capabilities import OverCap
from leadsman.wire.explanations import Ahead
from leadsman.wire.leases import WorkerState
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import budgets
from leadsman_broker.core.ceilings import background_limit, closed
from leadsman_broker.core.tasks import DELAYED, LEASED, TaskRow
from leadsman_broker.core.tenants import BACKGROUND, INTERACTIVE, Tenant

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State

SETTINGS: dict[Reason, str] = {
    Reason.BACKOFF: "retry.backoffSeconds",
    Reason.TENANT_CAP: "fairness.tenantSharePercent",
    Reason.INTERACTIVE_RESERVE: "fairness.interactiveReservePercent",
    Reason.IN_FLIGHT_CEILING: "limits.maxInFlight",
    Reason.RATE_LIMIT: "limits.leasesPerMinute",
    Reason.BUDGET: "budget",
    Reason.ESTIMATE_ABOVE_BUDGET: "budget",
    Reason.WORKERS_BUSY: "maxReplicas",
}
"""The field that would change it; a delay and a pause are nobody's setting, and no field makes pods start."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds a live task back, and the numbers that say so."""

    reason: Reason | None
    summary: str
    setting: str | None
    ahead: Ahead | None
    due_in_seconds: float | None
    tenant_in_flight: int
    tenant_cap: int | None
    queue_in_flight: int
    free_slots: int


def explain(state: "State", row: TaskRow, now: float) -> Standing:
    """Explain a live task."""
    queue = row.queue
    tenant = queue.line.tenant(row.tenant)
    free = _free_slots(state, queue)
    reason: Reason | None = None
    ahead: Ahead | None = None
    due_in: float | None = None
    if row.state is LEASED:
        lease = row.lease
        assert lease is not None  # noqa: S101  # the state says so
        summary = f"leased by {lease.worker.id} for {now - lease.started_at:.0f} s"
    elif row.state is DELAYED:
        reason = Reason.BACKOFF if row.backing_off else Reason.DELAYED
        due_in = max(0.0, row.due_at - now)
        what = "waits for its next attempt" if row.backing_off else "was submitted with a delay"
        summary = f"{what}; ready in {due_in:.0f} s"
    else:
        reason, why = _what_blocks(state, row, tenant, free)
        ahead = _ahead(state, row)
        before = ahead.higher_priority + ahead.same_tenant + ahead.other_tenants
        summary = f"ready for {now - row.due_at:.0f} s, {before} ahead of it; {why}"
    return Standing(
        reason=reason,
        summary=summary,
        setting=SETTINGS.get(reason) if reason is not None else None,
        ahead=ahead,
        due_in_seconds=due_in,
        tenant_in_flight=tenant.in_flight,
        tenant_cap=tenant.cap,
        queue_in_flight=queue.leased,
        free_slots=free,
    )


def _what_blocks(state: "State", row: TaskRow, tenant: Tenant, free: int) -> tuple[Reason, str]:
    """Return the one thing without which nothing else would help."""
    queue, rules = row.queue, row.queue.rules
    interactive = INTERACTIVE if row.task_class is TaskClass.INTERACTIVE else BACKGROUND
    shut = closed(state, queue, interactive)
    if shut is not Reason.CAPABILITY_PAUSED:  # what else is shut opens sooner
        shut = tenant.held[interactive] or shut
        if budgets.no_room(state, queue, row) is not None:
            never = budgets.excessive(queue, row.tenant, row.estimate) is not None
            shut = Reason.ESTIMATE_ABOVE_BUDGET if never else Reason.BUDGET
    if shut is Reason.CAPABILITY_PAUSED:
        return shut, "the capability is paused"
    if shut in {Reason.BUDGET, Reason.ESTIMATE_ABOVE_BUDGET}:
        return shut, budgets.describe(state, row)
    if shut is Reason.IN_FLIGHT_CEILING:
        return shut, f"{queue.leased} tasks of the queue are in flight, no more than {rules.max_in_flight} may be"
    if tenant.capped and rules.over_cap is OverCap.WAIT:
        return Reason.TENANT_CAP, f"its tenant has {tenant.in_flight} tasks in flight, its cap is {tenant.cap}"
    if shut is Reason.RATE_LIMIT:
        return shut, f"no more than {rules.leases_per_minute} tasks are handed out in a minute"
    if shut is Reason.INTERACTIVE_RESERVE:
        running = queue.line.in_flight[BACKGROUND]
        return (
            shut,
            f"{running} background tasks run, the reserve leaves them {background_limit(state, queue)} slots",
        )
    if shut is not None:
        return shut, "it is held back"
    if not state.fleet.slots(queue.key):
        if rules.max_slots is None:
            return Reason.NO_POOL_SERVES, f"no worker serves {queue.key[1]}"
        return Reason.WORKERS_STARTING, f"no worker serves {queue.key[1]} at the moment"
    if row.suspect:
        return Reason.WORKERS_BUSY, "it was lost with its worker, and waits for one that holds nothing"
    if tenant.capped:
        return Reason.TENANT_CAP, "its tenant is over its cap, and goes when no other wants the slot"
    return Reason.WORKERS_BUSY, f"{free} of {state.fleet.slots(queue.key)} slots are free"


def _ahead(state: "State", row: TaskRow) -> Ahead:
    own = row.queue.line.tenant(row.tenant)
    rivals: list[_Rival] = []
    me = _Rival(own)
    position = higher = 0
    for tenant in row.queue.line.tenants.values():
        rival = me if tenant is own else _Rival(tenant)
        for lane in tenant.lanes.values():
            if lane.priority < row.priority or not lane.ready:
                continue
            if lane.priority == row.priority and tenant is own:
                position += lane.rows_before(row.seq, state.tasks)
                me.came = min(me.came, lane.number)
            elif lane.shelf is not None and closed(state, row.queue, lane.interactive) is None:
                if lane.priority > row.priority:
                    higher += lane.ready
                    rival.in_flight += lane.ready
                else:
                    rival.ready += lane.ready
                    rival.came = min(rival.came, lane.number)
        if rival is not me and rival.ready:
            rivals.append(rival)
    turns = sum(_turns(me, position, rival) for rival in rivals)
    return Ahead(higher_priority=higher, same_tenant=position, other_tenants=turns)


@dataclass(slots=True)
class _Rival:
    """A tenant as it stands when all of higher priority has gone out."""

    tenant: Tenant
    in_flight: int = field(init=False)
    ready: int = 0
    came: float = inf
    """The number of its first lane: the last word among equals."""

    def __post_init__(self) -> None:
        self.in_flight = self.tenant.in_flight

    @property
    def load(self) -> Fraction:
        return Fraction(self.in_flight, self.tenant.weight)


def _turns(own: _Rival, position: int, other: _Rival) -> int:
    """Return how often another tenant is served before the task at this position of `own`, if no lease ends.

    It is while its load is below ours when the task's turn comes. When they are equal then, the one goes first that
    got there earlier: it had the higher load, or was served longer ago, or came first.
    """
    ours = Fraction(own.in_flight + position, own.tenant.weight)
    turns = max(0, ceil(ours * other.tenant.weight) - other.in_flight)
    tied = Fraction(other.in_flight + turns, other.tenant.weight) == ours
    before = (-other.load, other.tenant.served, other.came) < (-own.load, own.tenant.served, own.came)
    turns += tied and before
    cap = other.tenant.cap
    room = other.ready if cap is None or other.tenant.capped else cap - other.in_flight
    return max(0, min(turns, other.ready, room))


def _free_slots(state: "State", queue: "Queue") -> int:
    namespace, capability = queue.key
    return sum(
        max(0, worker.slots - len(worker.leases))
        for worker in state.workers.values()
        if worker.key[0] == namespace
        and capability in worker.capabilities
        and worker.state is WorkerState.ACTIVE
        and not worker.silent
    )
