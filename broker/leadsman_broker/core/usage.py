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
