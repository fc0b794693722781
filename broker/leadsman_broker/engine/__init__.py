"""The broker's one owner of core and store: commands in, commits one at a time, replies after their commit."""

from leadsman_broker.engine.calls import LeaseCall, LeaseGrant
from leadsman_broker.engine.clock import Clock
from leadsman_broker.engine.engine import ClosingError, Engine, StorageBusyError, StorageLowError
from leadsman_broker.engine.feed import Event, Feed, Subscription
from leadsman_broker.engine.randomness import SecureRandom

__all__ = [
    "Clock",
    "ClosingError",
    "Engine",
    "Event",
    "Feed",
    "LeaseCall",
    "LeaseGrant",
    "SecureRandom",
    "StorageBusyError",
    "StorageLowError",
    "Subscription",
]
