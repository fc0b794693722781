"""A lease as a worker holds it, of a task that no broker gave it."""

from collections.abc import Callable

from leadsman.wire.leases import Lease
from leadsman.worker.holding import Held

_LEASE = {
    "task": {
        "id": "t",
        "namespace": "default",
        "capability": "llm",
        "name": "default",
        "class": "background",
        "priority": 0,
        "attempt": 1,
        "max_attempts": 5,
        "epoch": 1,
    },
    "expires_in_seconds": 30,
    "lease_seconds": 30,
    "heartbeat_seconds": 10,
    "attempt_timeout_seconds": 3600,
    "unreachable_seconds": 900,
}


def held(token: str = "t-1", wake: Callable[[], None] = lambda: None, *, asked_at: float | None = None) -> Held:
    """Return a lease of thirty seconds."""
    return Held(Lease.model_validate({**_LEASE, "token": token}), wake, asked_at=asked_at)
