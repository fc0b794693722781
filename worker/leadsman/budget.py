"""What an attempt may still use."""

from dataclasses import dataclass
from decimal import Decimal

from leadsman.amounts import MICROS, micros_of, tokens_of

Left = tuple[int | None, int | None]
"""Tokens and millionths of money that are left; None for what has no limit."""


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """How much more an attempt may use, by the tightest of its run's caps and its tenant's and queue's budgets."""

    tokens: int | None = None
    """None: no limit on tokens."""
    cost: Decimal | None = None
    """In the unit of `report_usage`; None: no limit on money."""

    def allows(self, *, tokens: int = 0, cost: Decimal | float | str = 0) -> bool:
        """Whether so much more is within it. Raises InvalidValueError for what is no amount."""
        wanted = tokens_of(tokens), micros_of(cost)
        return all(limit is None or amount <= limit for amount, limit in zip(wanted, left_of(self), strict=True))


def left_of(budget: RemainingBudget) -> Left:
    """Return it in whole numbers."""
    return budget.tokens, None if budget.cost is None else int(budget.cost * MICROS)


def budget_of(left: Left | None) -> RemainingBudget | None:
    """Return it as a handler reads it."""
    if left is None:
        return None
    tokens, micros = left
    return RemainingBudget(tokens, None if micros is None else Decimal(micros) / MICROS)


def less(left: Left | None, tokens: int, micros: int) -> Left | None:
    """Return what is left after so much more was used; never below 0."""
    if left is None:
        return None
    of_tokens, of_money = left
    return (
        None if of_tokens is None else max(0, of_tokens - tokens),
        None if of_money is None else max(0, of_money - micros),
    )
