"""Cordons: a pod's workers keep what they hold and get nothing new, until the cordon is lifted or runs out.

The first half of taking a busy worker away: it empties by itself, and can then be fenced. Kept apart from fences,
so that either may be lifted alone.
"""

from typing import TYPE_CHECKING

from leadsman.wire.workers import CordonOutcome
from leadsman_broker.core.bars import leases_of, lift, lift_over
from leadsman_broker.core.commands import Cordon, Uncordon
from leadsman_broker.core.results import Cordoned
from leadsman_broker.core.rows import CordonRow
from leadsman_broker.core.waiting import end_unless_active

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def cordon(state: "State", command: Cordon) -> list[Cordoned]:
    """Cordon each pod, or renew the operation's own cordon; with `drain`, ask its processes to drain and end."""
    return [_cordon_one(state, command, pod_uid) for pod_uid in command.pod_uids]


def uncordon(state: "State", command: Uncordon) -> list[bool]:
    """Lift the cordons of an operation, or of any; say of each pod whether there was one to lift."""
    return lift(state.cordons, command, lambda pod_uid: _bind(state, pod_uid, None))


def lift_expired_cordons(state: "State") -> None:
    """Lift the cordons whose time is over."""
    lift_over(state.cordons, state.now, lambda pod_uid: _bind(state, pod_uid, None))


def _cordon_one(state: "State", command: Cordon, pod_uid: str) -> Cordoned:
    leases = leases_of(state, pod_uid)
    known = state.cordons.get(pod_uid)
    if known is not None and known.operation != command.operation:
        return Cordoned(pod_uid, CordonOutcome.OTHER_OPERATION, leases, known.operation)
    expires_at = state.now + command.ttl_seconds
    _bind(state, pod_uid, CordonRow(pod_uid, command.operation, expires_at, command.drain))
    return Cordoned(pod_uid, CordonOutcome.CORDONED, leases, command.operation)


def _bind(state: "State", pod_uid: str, row: CordonRow | None) -> None:
    asks = row is not None and row.drain and not _asked(state, pod_uid)
    if row is None:
        del state.cordons[pod_uid]
    else:
        state.cordons[pod_uid] = row
        state.alarms.sooner("cordons", row.expires_at)
    state.out.cordons[pod_uid] = row
    state.fences_changed = state.urgent = True
    for key in state.pods.get(pod_uid, ()):
        worker = state.workers[key]
        worker.cordon = row
        worker.asked_to_drain = row is not None and row.drain and (asks or worker.asked_to_drain)
        state.worker_changed(worker, urgent=True)
        end_unless_active(state, worker)


def _asked(state: "State", pod_uid: str) -> bool:
    """Say whether the cordon in force asks to drain already; renewing it asks nobody anew."""
    known = state.cordons.get(pod_uid)
    return known is not None and known.drain
