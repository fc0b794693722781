"""Since when what was held back can be leased again, as stored: its age counts from then, also after a restart.

A pause and a wait for a budget end once, and are written when they do. A ceiling and a cap open with every lease
that ends: what is still open at the end of a step is written, and again only when the store is `APART_SECONDS`
behind. So much too old is a task at most after a restart, never too young.
"""

from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State
    from leadsman_broker.core.tenants import Tenant

APART_SECONDS = 5.0

KEPT_SECONDS = 86_400.0
"""A tenant's opening is stored for so long. What has been leasable for longer counts from its acceptance then."""

_SWEEP_SECONDS = 3_600.0


class OpeningRow(NamedTuple):
    """When a queue, or a class of one of its tenants, could be leased again."""

    namespace: str
    capability: str
    tenant: str | None
    """None: the queue."""
    interactive: bool
    """The class, of a tenant; false for the queue."""
    at: float


def keep(state: "State") -> None:
    """Write what the step has opened, left open, and not served to the end."""
    for key, name in state.opened:
        queue = state.queues.get(key)
        if queue is None or queue.is_full:  # it opens anew, with another lease
            continue
        if name is None:
            _keep_queue(state, queue)
        elif (tenant := queue.line.tenants.get(name)) is not None and not queue.line.cap_blocks(tenant):
            _keep_tenant(state, queue, tenant)
    state.opened.clear()


def follow(state: "State") -> None:
    """Note the openings of tenants that the step writes, whatever held them."""
    for (_, tenant, _), at in state.out.openings.items():
        if tenant is not None:
            note(state, at)


def note(state: "State", at: float) -> None:
    """Note that the opening of a tenant at this time is in the store."""
    state.oldest_opening = min(state.oldest_opening, at)
    state.newest_opening = max(state.newest_opening, at)


def sweep(state: "State") -> None:
    """Let go of the openings of tenants that are old, if there may be any."""
    before = state.now - KEPT_SECONDS
    if state.oldest_opening >= before or state.now - state.openings_swept_at < _SWEEP_SECONDS:
        return
    state.openings_swept_at = state.now
    state.out.openings_before = before
    state.oldest_opening = before if state.newest_opening >= before else inf


def _keep_queue(state: "State", queue: "Queue") -> None:
    if queue.ready and queue.opened_at - queue.kept_at >= APART_SECONDS:
        queue.kept_at = queue.opened_at
        state.out.opened(queue, queue.opened_at)


def _keep_tenant(state: "State", queue: "Queue", tenant: "Tenant") -> None:
    if max(tenant.opened_at) - tenant.kept_at < APART_SECONDS:
        return
    for interactive, at in enumerate(tenant.opened_at):
        if tenant.ready[interactive]:  # what becomes ready later counts from then
            tenant.kept_at = max(tenant.opened_at)
            state.out.opened(queue, at, tenant=tenant.name, interactive=bool(interactive))
