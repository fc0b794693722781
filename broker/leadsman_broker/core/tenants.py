"""A tenant in one queue: what it has waiting and in flight, and how much it may have.

The untenanted are one tenant, `""`: in rotation like any other, and under no cap.
"""

from leadsman.reasons import Reason
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core.lanes import Lane

INTERACTIVE = 1
"""Where a pair is kept, one thing for each class: `pair[BACKGROUND]`, `pair[INTERACTIVE]`."""
BACKGROUND = 0


def tenant_cap(rules: CapabilityConfig, tenant: str) -> int | None:
    """Return how many tasks a tenant may have in flight: max(1, int(max_slots * share)), in whole numbers.

    None: no cap, as long as it is not known what the serving pools may grow to, and for the untenanted.
    """
    if not tenant or rules.max_slots is None:
        return None
    return max(1, rules.max_slots * rules.tenant_share_percent // 100)


class Tenant:
    """Counts of one tenant, and its lanes."""

    __slots__ = (
        "barred",
        "cap",
        "capped",
        "delayed",
        "excess",
        "held",
        "in_flight",
        "kept_at",
        "lanes",
        "load",
        "name",
        "opened_at",
        "ready",
        "served",
        "weight",
    )

    def __init__(self, name: str, rules: CapabilityConfig) -> None:
        self.name = name
        self.lanes: dict[int, Lane] = {}
        self.delayed = 0
        self.barred: set[int] = set()
        """seqs of ready tasks for which there is no room in any window of the budget: they are in no lane."""
        self.ready = [0, 0]
        """Ready tasks by class, but for the barred."""
        self.in_flight = 0
        """Its leases in this queue."""
        self.served = 0
        """The number of the pick that served it last."""
        self.held: list[Reason | None] = [None, None]
        """Why its tasks of a class wait for something else than a worker or their turn, see `gates`."""
        self.opened_at = [0.0, 0.0]
        """When its tasks of a class stopped being blocked."""
        self.kept_at = 0.0
        """The newest of these that the store knows of, but for a few seconds, see `openings`."""
        self.excess = 0
        """Ready tasks that could not be in flight, because of the cap, if workers were unlimited."""
        self.capped = False
        self.weight = 1
        self.cap: int | None = None
        self.load = 0.0
        """In flight by weight. A quotient of two whole numbers: equal ones are equal as floats too."""
        self.follow(rules)

    @property
    def depth(self) -> int:
        """Return how many tasks it has, ready or delayed: what admission counts."""
        return self.ready[BACKGROUND] + self.ready[INTERACTIVE] + len(self.barred) + self.delayed

    @property
    def idle(self) -> bool:
        """Say whether nothing of it waits or runs."""
        return not self.depth and not self.in_flight

    def follow(self, rules: CapabilityConfig) -> None:
        """Take over weight and cap from the queue's rules."""
        self.weight = rules.tenant_weights.get(self.name, 1)
        self.cap = tenant_cap(rules, self.name)
        self.count_in_flight(0)

    def count_in_flight(self, change: int) -> None:
        """Follow a lease that began or ended."""
        in_flight = self.in_flight = self.in_flight + change
        self.load = in_flight / self.weight
        self.capped = self.cap is not None and in_flight >= self.cap

    def find_excess(self, *, interactive: bool = True, background: bool = True) -> int:
        """Count the ready tasks of these classes for which the cap leaves no room."""
        if self.cap is None:
            return 0
        ready = self.ready[INTERACTIVE] if interactive and self.held[INTERACTIVE] is None else 0
        ready += self.ready[BACKGROUND] if background and self.held[BACKGROUND] is None else 0
        return max(0, ready - max(0, self.cap - self.in_flight))
