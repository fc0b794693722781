"""What an attempt cost: tokens, and money in millionths of whatever unit the fleet counts in."""

from typing import NamedTuple


class Usage(NamedTuple):
    """The totals of one attempt so far, or of several together."""

    tokens: int = 0
    cost_micros: int = 0

    def raised_to(self, other: "Usage") -> "Usage":
        """Return the larger of each: a report that comes twice, or late, takes nothing back."""
        return Usage(max(self.tokens, other.tokens), max(self.cost_micros, other.cost_micros))

    def less(self, other: "Usage") -> "Usage":
        """Return the difference, field by field."""
        return Usage(self.tokens - other.tokens, self.cost_micros - other.cost_micros)

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum, field by field."""
        return Usage(self.tokens + other.tokens, self.cost_micros + other.cost_micros)


NOTHING = Usage()


class Remaining(NamedTuple):
    """How much more may be used; None: as much as it takes."""

    tokens: int | None = None
    cost_micros: int | None = None


class Estimate(NamedTuple):
    """What an attempt may use by the word of its task; None: what the queue says."""

    tokens: int | None = None
    cost_micros: int | None = None

    def over(self, default: Usage) -> Usage:
        """Return the whole estimate."""
        tokens = default.tokens if self.tokens is None else self.tokens
        cost_micros = default.cost_micros if self.cost_micros is None else self.cost_micros
        return Usage(tokens, cost_micros)
