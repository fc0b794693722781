"""The line of a queue's ready tasks: each tenant's own lanes, and the shelves on which the pickable ones stand.

A blocked tenant stands on no shelf, so a pick never sees it: it comes back when what blocks it changes. What a
tenant has in flight is counted here and nowhere else, at the two moments at which a lease begins and ends.
"""

from collections import Counter

from leadsman.reasons import Reason
from leadsman.wire.capabilities import CapabilityConfig, OverCap
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core.lanes import Lane, Tasks
from leadsman_broker.core.ranking import Key, Ranking
from leadsman_broker.core.rotation import Shelf
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.tenants import BACKGROUND, INTERACTIVE, Tenant

SUSPECT = 2
OVER_CAP = 4
"""A shelf is found by class + SUSPECT + OVER_CAP."""

_KEPT_IDLE = 1024
"""So many idle tenants are remembered at least, for whom they were served after."""

_INTERACTIVE_CLASS = TaskClass.INTERACTIVE


class Line:
    """Ready tasks by tenant, what each tenant has in flight, and who is blocked by what."""

    __slots__ = (
        "_by_age",
        "_keep",
        "_lanes",
        "_rules",
        "_suspect_lanes",
        "_tasks",
        "barred",
        "excess",
        "held",
        "in_flight",
        "ordinary",
        "ready",
        "shelves",
        "suspects",
        "tenants",
    )

    def __init__(self, tasks: Tasks, rules: CapabilityConfig) -> None:
        def since(lane: Lane) -> Key:
            oldest = lane.oldest_since(tasks)
            return (max(oldest if oldest is not None else 0.0, lane.tenant.opened_at[lane.interactive]),)

        self._tasks = tasks
        self._rules = rules
        self.tenants: dict[str, Tenant] = {}
        self.shelves = [Shelf(tasks) for _ in range(8)]
        self.ordinary = 0
        """Ready tasks that any worker may have."""
        self.suspects = 0
        """Ready tasks that wait for a worker that holds nothing."""
        self.barred = 0
        """Ready tasks that wait apart, until `unbar`; none of the other counts has them."""
        self.ready = [0, 0]
        """Ready tasks by class."""
        self.in_flight = [0, 0]
        """Leases by class."""
        self.held: Counter[tuple[Reason, int]] = Counter()
        """Ready tasks of tenants that something holds, by what it is and class."""
        self.excess = 0
        """Ready tasks for which their tenants' caps leave no room."""
        self._suspect_lanes: dict[Lane, None] = {}
        self._by_age = (Ranking(since), Ranking(since))
        self._lanes = 0
        self._keep = _KEPT_IDLE

    # Tasks come and go

    def append(self, row: TaskRow) -> None:
        """Add a ready task with a seq above every task that was ever appended."""
        lane = self._lane(row)
        lane.append(row)
        if lane.mixed and lane.shelf is not None:  # at a start, what came back stands before what is older
            self._by_age[lane.interactive].fell(lane)
        self._count(lane, 1)

    def insert(self, row: TaskRow) -> None:
        """Add a ready task that was delayed or comes back."""
        lane = self._lane(row)
        lane.insert(row, self._tasks)
        shelf = lane.shelf
        self._count(lane, 1)
        if shelf is not None:
            shelf.came_back(lane)
            self._by_age[lane.interactive].fell(lane)

    def discard(self, row: TaskRow) -> None:
        """Let go of a ready task that was not taken."""
        lane = self._lane(row)
        if row.seq in lane.tenant.barred:
            lane.tenant.barred.remove(row.seq)
            self.barred -= 1
            return
        lane.discard()
        self._count(lane, -1)

    def take(self, row: TaskRow, lane: Lane, pick: int) -> None:
        """Remove the task that the lane's `head` has just returned; `pick` is the number of the pick."""
        lane.tenant.served = pick
        lane.take(row)
        self._count(lane, -1)

    def bar(self, row: TaskRow) -> None:
        """Set aside the task that a lane's `head` has just returned: it keeps nobody waiting, and waits itself."""
        lane = self._lane(row)
        lane.tenant.barred.add(row.seq)
        self.barred += 1
        lane.take(row)
        self._count(lane, -1)

    def unbar(self) -> bool:
        """Bring back what was set aside, each task to the place its seq gives it; say whether there was any."""
        if not self.barred:
            return False
        self.barred = 0
        for tenant in self.tenants.values():
            barred, tenant.barred = tenant.barred, set()
            for seq in sorted(barred):
                self.insert(self._tasks[seq])
        return True

    def begin(self, row: TaskRow) -> None:
        """Count a lease of a task that is in the line no longer."""
        self._count_in_flight(row, 1, 0.0)

    def end(self, row: TaskRow, now: float) -> bool:
        """Count a lease out; say whether its tenant's tasks waited for that."""
        return self._count_in_flight(row, -1, now)

    def give_up_suspicions(self, now: float, patience: float, limit: int) -> list[TaskRow]:
        """Let any worker have the suspects that were ready for `patience` seconds, at most `limit`; return them."""
        found: list[TaskRow] = []
        for lane in [*self._suspect_lanes]:
            rows = lane.ready_for(patience, now, self._tasks, limit - len(found))
            for row in rows:
                self.discard(row)
                row.suspect = False
                self.insert(row)
            found += rows
        return found

    def suspect_since(self) -> float | None:
        """Return since when the longest waiting suspect has been ready."""
        found = [lane.oldest_since(self._tasks) for lane in self._suspect_lanes]
        return min((since for since in found if since is not None), default=None)

    # What blocks and unblocks

    def hold(self, tenant: str, interactive: int, reason: Reason) -> None:
        """Block a tenant's tasks of a class until `lift`."""
        self._set_held(self.tenant(tenant), interactive, reason)

    def lift(self, interactive: int, reason: Reason, now: float, tenant: str | None = None) -> list[str]:
        """Unblock what was held for this reason, of one tenant or of all; return the tenants that were."""
        some = self.tenants.values() if tenant is None else [self.tenant(tenant)]
        lifted = [each for each in some if each.held[interactive] is reason]
        for each in lifted:
            each.opened_at[interactive] = now
            self._set_held(each, interactive, None)
        return [each.name for each in lifted]

    def reopen(self, name: str, interactive: int, at: float) -> None:
        """Bring back when a tenant's tasks of a class stopped being blocked, if it has anything."""
        tenant = self.tenants.get(name)
        if tenant is not None:
            tenant.opened_at[interactive] = at
            tenant.kept_at = max(tenant.kept_at, at)

    def follow(self, rules: CapabilityConfig, now: float) -> list[str]:
        """Take over the caps and weights of new rules; return the tenants that a cap blocks no longer."""
        blocked = {tenant.name for tenant in self.tenants.values() if self.cap_blocks(tenant)}
        self._rules = rules
        opened = []
        for tenant in self.tenants.values():
            tenant.follow(rules)
            if tenant.name in blocked and not self.cap_blocks(tenant):
                tenant.opened_at = [now, now]
                opened.append(tenant.name)
            self._count_excess(tenant)
            for lane in tenant.lanes.values():
                self._place(lane)
                if lane.shelf is not None:
                    lane.shelf.lighter(lane)
        return opened

    # What is asked

    def cap_blocks(self, tenant: Tenant) -> bool:
        """Whether a tenant's cap keeps its tasks waiting, even while slots are idle."""
        return tenant.capped and self._rules.over_cap is OverCap.WAIT

    def tenant(self, name: str) -> Tenant:
        """Return a tenant, new if it was not known."""
        tenant = self.tenants.get(name)
        if tenant is None:
            if len(self.tenants) >= self._keep:
                self._forget_idle()
            tenant = self.tenants[name] = Tenant(name, self._rules)
        return tenant

    def oldest_since(self, interactive: int) -> float | None:
        """Return since when the longest leasable task of a class could have been leased."""
        ages = self._by_age[interactive]
        if not ages:
            return None
        lane = ages.first()
        oldest = lane.oldest_since(self._tasks)
        return None if oldest is None else max(oldest, lane.tenant.opened_at[interactive])

    def excess_of(self, *, interactive: bool, background: bool) -> int:
        """Count the ready tasks of these classes for which their tenants' caps leave no room."""
        if interactive and background:
            return self.excess
        if not self.excess:
            return 0
        return sum(
            tenant.find_excess(interactive=interactive, background=background) for tenant in self.tenants.values()
        )

    # How

    def _lane(self, row: TaskRow) -> Lane:
        tenant = self.tenants.get(row.tenant) or self.tenant(row.tenant)
        interactive = INTERACTIVE if row.task_class is _INTERACTIVE_CLASS else BACKGROUND
        key = row.priority + 10 * interactive + (20 if row.suspect else 0)
        lane = tenant.lanes.get(key)
        if lane is None:
            self._lanes += 1
            lane = Lane(tenant, interactive, row.priority, self._lanes, suspect=row.suspect)
            tenant.lanes[key] = lane
        return lane

    def _count(self, lane: Lane, change: int) -> None:
        """Follow a task that came into a lane, or left it."""
        tenant, interactive = lane.tenant, lane.interactive
        self.ready[interactive] += change
        tenant.ready[interactive] += change
        if lane.suspect:
            self.suspects += change
            if lane.ready:
                self._suspect_lanes[lane] = None
            else:
                self._suspect_lanes.pop(lane, None)
        else:
            self.ordinary += change
        reason = tenant.held[interactive]
        if reason is not None:
            self.held[reason, interactive] += change
        if tenant.cap is not None:
            self._count_excess(tenant)
        if not lane.ready or lane.shelf is None:
            self._place(lane)

    def _count_in_flight(self, row: TaskRow, change: int, now: float) -> bool:
        tenant = self.tenants.get(row.tenant) or self.tenant(row.tenant)
        self.in_flight[INTERACTIVE if row.task_class is _INTERACTIVE_CLASS else BACKGROUND] += change
        was_capped = tenant.capped
        was_blocked = was_capped and self.cap_blocks(tenant)
        tenant.count_in_flight(change)
        opened = False
        if tenant.cap is not None:
            self._count_excess(tenant)
            if tenant.capped is not was_capped:
                if was_blocked:
                    tenant.opened_at = [now, now]
                    opened = True
                for lane in tenant.lanes.values():
                    self._place(lane)
        if change < 0 and len(self.tenants) > 1:  # a tenant alone has its turn anyway
            for lane in tenant.lanes.values():
                if lane.shelf is not None:
                    lane.shelf.lighter(lane)
        return opened

    def _count_excess(self, tenant: Tenant) -> None:
        excess = tenant.find_excess() if self._rules.over_cap is OverCap.WAIT else 0
        self.excess += excess - tenant.excess
        tenant.excess = excess

    def _set_held(self, tenant: Tenant, interactive: int, reason: Reason | None) -> None:
        before = tenant.held[interactive]
        if before is not None:
            self.held[before, interactive] -= tenant.ready[interactive]
        tenant.held[interactive] = reason
        if reason is not None:
            self.held[reason, interactive] += tenant.ready[interactive]
        self._count_excess(tenant)
        for lane in tenant.lanes.values():
            if lane.interactive == interactive:
                self._place(lane)

    def _place(self, lane: Lane) -> None:
        """Put a lane on the shelf it belongs to, or on none."""
        tenant = lane.tenant
        target: Shelf | None = None
        if lane.ready and tenant.held[lane.interactive] is None:
            kind = lane.interactive + (SUSPECT if lane.suspect else 0)
            if not tenant.capped:
                target = self.shelves[kind]
            elif not self.cap_blocks(tenant):
                target = self.shelves[kind + OVER_CAP]
        before = lane.shelf
        if target is before:
            return
        ages = self._by_age[lane.interactive]
        if before is None:
            ages.put(lane)
        else:
            before.remove(lane)
            if target is None:
                ages.remove(lane)
        if target is not None:
            target.add(lane)

    def _forget_idle(self) -> None:
        """Forget the idle tenants that were served longest ago, half of them: they count as never served then."""
        idle = sorted((tenant for tenant in self.tenants.values() if tenant.idle), key=lambda each: each.served)
        for tenant in idle[: (len(idle) + 1) // 2]:
            del self.tenants[tenant.name]
            tenant.lanes.clear()  # a lane knows its tenant, and no cyclic collector runs to free the two
        self._keep = max(_KEPT_IDLE, 2 * len(self.tenants))
