"""What a fence and a cordon have in common: an operation bars a pod, until that is lifted or its time is over."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from leadsman_broker.core.commands import Uncordon, Unfence
from leadsman_broker.core.rows import CordonRow, FenceRow

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def leases_of(state: "State", pod_uid: str) -> int:
    """Return how many leases the pod's processes hold together."""
    return sum(len(state.workers[key].leases) for key in state.pods.get(pod_uid, ()))


def lift(
    bars: Mapping[str, FenceRow | CordonRow], command: Unfence | Uncordon, unbar: Callable[[str], None]
) -> list[bool]:
    """Lift the bars of an operation, or of any; say of each pod whether there was one to lift."""
    lifted = []
    for pod_uid in command.pod_uids:
        known = bars.get(pod_uid)
        lifts = known is not None and command.operation in (None, known.operation)
        lifted.append(lifts)
        if lifts:
            unbar(pod_uid)
    return lifted


def lift_over(bars: Mapping[str, FenceRow | CordonRow], now: float, unbar: Callable[[str], None]) -> None:
    """Lift the bars whose time is over."""
    for pod_uid in [row.pod_uid for row in bars.values() if row.expires_at <= now]:
        unbar(pod_uid)
