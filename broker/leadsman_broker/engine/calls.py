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
    """One call. `ended` is done once its answer is durable."""

    command: Lease
    ended: asyncio.Future[LeaseGrant] = field(repr=False)
    parked: bool = False
    """It found nothing and waited."""
    gone: bool = False
    """Its socket is, so it is not to get anything."""
