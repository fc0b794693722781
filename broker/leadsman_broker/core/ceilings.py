"""What closes a whole queue, or all its tasks of a class, for the moment.

Each is worked out from what is so now, never kept: nothing can be forgotten closed. Whoever changes one of these
facts makes the queue hot, so that the next dispatch looks again.
"""

from typing import TYPE_CHECKING

from leadsman.reasons import Reason
from leadsman_broker.core.tenants import BACKGROUND

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State


def closed(state: "State", queue: "Queue", interactive: int) -> Reason | None:
    """Return why no task of this class (1: interactive, 0: background) may be leased now; None: it may."""
    if queue.paused:
        return Reason.CAPABILITY_PAUSED
    held = queue.held[interactive]
    if held:
        return min(held)
    if queue.is_full:
        return Reason.IN_FLIGHT_CEILING
    if queue.pace.limited and queue.pace.opens_at() > state.now:
        return Reason.RATE_LIMIT
    reserves = not interactive and queue.rules.interactive_reserve_percent
    if reserves and queue.line.in_flight[BACKGROUND] >= background_limit(state, queue):
        return Reason.INTERACTIVE_RESERVE
    return None


def background_limit(state: "State", queue: "Queue") -> int:
    """Return how many background tasks may be in flight: what the reserve leaves of the slots, at least 1."""
    slots = state.fleet.slots(queue.key)
    return max(1, slots - slots * queue.rules.interactive_reserve_percent // 100)


def watch_pace(state: "State", queue: "Queue") -> None:
    """Look at a queue again as soon as its rate allows the next lease."""
    if queue.pace.limited and queue.ready:
        opens_at = queue.pace.opens_at()
        if opens_at > state.now:
            state.alarms.set(("pace", queue.key), opens_at)
