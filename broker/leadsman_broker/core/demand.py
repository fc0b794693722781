"""How much of a queue's work could be in flight, and what holds back the rest.

*Leasable* is how many more tasks could be in flight at once if workers were unlimited: what is paused or held is
taken off, then what tenants' caps leave no room for, then what the ceiling does. A rate spreads leases over time,
and the interactive reserve grows with the workers: both are counted as blocking now, but take nothing off.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leadsman.reasons import Reason
from leadsman_broker.core.ceilings import background_limit
from leadsman_broker.core.tenants import BACKGROUND, INTERACTIVE

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State


@dataclass(frozen=True, slots=True)
class Work:
    """A queue's ready work at one moment."""

    waiting: int
    """W: not paused, not out of budget; behind a cap, a ceiling or a rate it counts."""
    leasable: int
    """Q."""
    due_soon: int
    """Delayed work that is due within the pools' start-up time, and could be in flight beside Q."""
    blocked: Counter[Reason]
    """Tasks that each reason holds back; the delayed too."""


def work_of(state: "State", queue: "Queue", now: float) -> Work:
    """Work out W, Q and what is blocked by what."""
    line, rules = queue.line, queue.rules
    blocked: Counter[Reason] = Counter()
    blocked[Reason.DELAYED] = queue.delayed - queue.backing_off
    blocked[Reason.BACKOFF] = queue.backing_off
    waiting = 0
    for interactive in (BACKGROUND, INTERACTIVE):
        ready = line.ready[interactive]
        held = queue.held[interactive]
        if queue.paused or held:
            blocked[Reason.CAPABILITY_PAUSED if queue.paused else min(held)] += ready
            continue
        for (reason, of_class), count in line.held.items():
            if of_class == interactive:
                blocked[reason] += count
                ready -= count
        waiting += ready
    blocked[Reason.CAPABILITY_PAUSED if queue.paused else Reason.ESTIMATE_ABOVE_BUDGET] += line.barred
    closed = [queue.paused or bool(held) for held in queue.held]
    excess = line.excess_of(background=not closed[BACKGROUND], interactive=not closed[INTERACTIVE])
    blocked[Reason.TENANT_CAP] = excess
    leasable = waiting - excess
    due_soon = 0 if all(closed) else queue.due_soon
    if rules.max_in_flight is not None:
        room = max(0, rules.max_in_flight - queue.leased)
        blocked[Reason.IN_FLIGHT_CEILING] = max(0, leasable - room)
        leasable = min(leasable, room)
        due_soon = min(due_soon, room - leasable)
    if queue.pace.limited:
        blocked[Reason.RATE_LIMIT] = max(0, leasable - queue.pace.tokens(now))
    if rules.interactive_reserve_percent and not closed[BACKGROUND]:
        room = max(0, background_limit(state, queue) - line.in_flight[BACKGROUND])
        background = min(line.ready[BACKGROUND], leasable)
        blocked[Reason.INTERACTIVE_RESERVE] = max(0, background - room)
    return Work(waiting, leasable, due_soon, blocked)


def oldest_since(queue: "Queue") -> float | None:
    """Return since when the oldest leasable task could have been leased, as far as the queue's rules go.

    What a pause, a budget, a cap or the ceiling holds back is not leasable, and counts from when that ended.
    """
    if queue.paused or queue.is_full:
        return None
    found = [
        since
        for interactive in (BACKGROUND, INTERACTIVE)
        if not queue.held[interactive] and (since := queue.line.oldest_since(interactive)) is not None
    ]
    return max(min(found), queue.opened_at) if found else None
