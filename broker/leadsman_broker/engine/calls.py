"""Lease calls on their way through the core, where they may be parked."""

import asyncio
from dataclasses import dataclass, field

from leadsman_broker.core.commands import Lease
from leadsman_broker.core.results import Answer
from leadsman_broker.store.interface import Delivery


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """The end of a lease call, and what its tasks carry. A grant without a delivery was settled in between."""

    answer: Answer
    deliveries: dict[str, Delivery]


@dataclass(slots=True, eq=False)
class LeaseCall:
    """One call. `parked` ends as soon as it is known whether the call waits, `ended` once its answer is durable."""

    command: Lease
    parked: asyncio.Future[bool] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future(), repr=False
    )
    ended: asyncio.Future[LeaseGrant] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future(), repr=False
    )
