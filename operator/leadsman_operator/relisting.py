"""Listing everything again from time to time: kopf loses deletions over a re-list of its own.

One list at a time, in turn, evenly over the period: with a thousand pools all at once take seconds of processor
time.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from leadsman_operator.kube.resources import Kind

Scope = tuple[Kind, str | None]
"""A kind and the namespace to list it in; None for all of them."""

FIRST_SECONDS = 10.0
"""After the watches began: what was deleted between our list and theirs is found out, for all kinds."""
PERIOD_SECONDS = 600.0
"""Between two lists of one kind, a quarter more or less."""


async def relist(
    list_one: Callable[[Kind, str | None], Awaitable[bool]],
    scopes: Sequence[Scope],
    *,
    rng: random.Random | None = None,
) -> None:
    """List for ever; a list that fails is due again when its turn comes."""
    draw = rng or random.Random()  # noqa: S311 - spreads load, keeps no secret
    await asyncio.sleep(FIRST_SECONDS)
    for scope in scopes:
        await list_one(*scope)
    while True:
        for scope in scopes:
            await asyncio.sleep(PERIOD_SECONDS / len(scopes) * draw.uniform(0.75, 1.25))
            await list_one(*scope)
