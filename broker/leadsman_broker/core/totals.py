"""Counters of a queue that only grow."""

from operator import attrgetter

from leadsman_broker.core.rows import TotalsRow

_COUNTERS = attrgetter(*TotalsRow._fields)


class Totals:
    """What happened to the tasks of a queue since it was first seen; kept in the store."""

    __slots__ = TotalsRow._fields

    accepted: int
    completed: int
    failed: int
    reclaimed: int
    refused: int
    late_acks: int
    dead: int
    expired: int
    cancelled: int
    no_progress: int
    redriven: int
    purged: int
    shed: int
    tokens: int
    cost_micros: int
    lost_tokens: int
    lost_cost_micros: int
    over_limit: int
    over_budget: int

    def __init__(self, row: TotalsRow | None = None) -> None:
        row = row if row is not None else TotalsRow()
        for field in TotalsRow._fields:
            setattr(self, field, getattr(row, field))

    def row(self) -> TotalsRow:
        """Return them as stored."""
        return TotalsRow._make(_COUNTERS(self))
