"""Amounts that a handler reports: tokens as whole numbers, money as millionths of its unit."""

from decimal import Decimal, InvalidOperation

from leadsman.errors import InvalidValueError

MAX_USAGE = 1_000_000_000_000
"""Tokens, or millionths, of one attempt. Not on the wire, so that a module of handlers loads without pydantic."""

MICROS = 1_000_000
"""Millionths in a unit of money."""


def tokens_of(tokens: int) -> int:
    """Return a number of tokens. Raises InvalidValueError."""
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= MAX_USAGE:
        raise InvalidValueError(f"tokens must be a whole number from 0 to {MAX_USAGE}, not {tokens!r}")
    return tokens


def micros_of(cost: Decimal | float | str) -> int:
    """Return an amount of money in millionths, rounded up: what is spent is never counted as nothing.

    Raises InvalidValueError.
    """
    try:
        micros = Decimal(str(cost)) * MICROS
    except InvalidOperation:
        micros = Decimal("NaN")
    if not micros.is_finite() or not 0 <= micros <= MAX_USAGE:
        raise InvalidValueError(f"cost must be an amount from 0 to {MAX_USAGE // MICROS}, not {cost!r}")
    return int(micros.to_integral_value("ROUND_CEILING"))
