"""Fences: a pod is taken out of service only while it holds nothing, and stays out until the fence is lifted.

Compare and set in one place: the operator asks, the core looks at every incarnation of the pod, and from the answer
on no lease can be given to it. A pod that nobody has heard of can be fenced too; what registers later is bound.
"""

from typing import TYPE_CHECKING

from leadsman.wire.workers import FenceOutcome
from leadsman_broker.core.bars import leases_of, lift, lift_over
from leadsman_broker.core.commands import Fence, Unfence
from leadsman_broker.core.results import Fenced
from leadsman_broker.core.rows import FenceRow
from leadsman_broker.core.waiting import end_unless_active

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def fence(state: "State", command: Fence) -> list[Fenced]:
    """Fence each pod that holds nothing, or renew the operation's own fence."""
    return [_fence_one(state, command, pod_uid) for pod_uid in command.pod_uids]


def unfence(state: "State", command: Unfence) -> list[bool]:
    """Lift the fences of an operation, or of any; say of each pod whether there was one to lift."""
    return lift(state.fences, command, lambda pod_uid: _bind(state, pod_uid, None))


def lift_expired(state: "State") -> None:
    """Lift the fences whose time is over."""
    lift_over(state.fences, state.now, lambda pod_uid: _bind(state, pod_uid, None))


def _fence_one(state: "State", command: Fence, pod_uid: str) -> Fenced:
    known = state.fences.get(pod_uid)
    if known is not None and known.operation != command.operation:
        return Fenced(pod_uid, FenceOutcome.OTHER_OPERATION, 0, known.operation)
    leases = leases_of(state, pod_uid)
    if leases:
        return Fenced(pod_uid, FenceOutcome.BUSY, leases)
    _bind(state, pod_uid, FenceRow(pod_uid, command.operation, state.now + command.ttl_seconds))
    return Fenced(pod_uid, FenceOutcome.FENCED, 0, command.operation)


def _bind(state: "State", pod_uid: str, row: FenceRow | None) -> None:
    if row is None:
        del state.fences[pod_uid]
    else:
        state.fences[pod_uid] = row
        state.alarms.sooner("fences", row.expires_at)
    state.out.fences[pod_uid] = row
    state.fences_changed = state.urgent = True
    for key in state.pods.get(pod_uid, ()):
        worker = state.workers[key]
        worker.fence = row
        state.worker_changed(worker, urgent=True)
        end_unless_active(state, worker)
