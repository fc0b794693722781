"""Sums of the ledger: what may be asked, and what a sum holds."""

from typing import NamedTuple

from leadsman.wire.costs import CostBy
from leadsman_broker.core.usage import NOTHING, Usage


class CostQuery(NamedTuple):
    """Which attempts of a namespace to add up: those leased from `since` on and before `until`."""

    namespace: str
    since: float
    until: float
    limit: int
    by: CostBy | None = None
    """None: all of them in one line, or none when there are none."""
    capability: str | None = None
    tenant: str | None = None
    run_id: str | None = None


class CostLine(NamedTuple):
    """What the attempts of one item used together."""

    item: str
    attempts: int
    running: int
    completed: int
    failed: int
    released: int
    lost: int
    usage: Usage
    lost_usage: Usage
    """Of these, by attempts that had lost their lease."""


NOTHING_USED = CostLine("", 0, 0, 0, 0, 0, 0, NOTHING, NOTHING)
