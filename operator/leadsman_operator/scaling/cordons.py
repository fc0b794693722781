"""Cordons: where fewer workers are free than are to go, the least loaded of the others get nothing new and empty.

A cordoned worker keeps its leases and stays in service for them; once it holds none the fence protocol takes it
like any other, and first. Its tasks are not hurried, and at most `max_draining` workers are on their way out with
tasks in their hands. Returning demand lifts every cordon before pods are added.

Nothing has to survive a restart: which cordons there are is read from the broker, and which there should be is
worked out anew at every step. So a new leader, which does not shrink for a whole window, lifts what it finds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from leadsman_operator.scaling.census import census
from leadsman_operator.scaling.model import Action, PodSample, WorkerSample
from leadsman_operator.scaling.scale_in import RETRY_SECONDS, ScaleInView

CORDON_TTL_SECONDS = 300.0
"""A cordon that nobody renews ends by itself: its operator is gone."""
RENEW_SECONDS = CORDON_TTL_SECONDS / 3


@dataclass(frozen=True, slots=True)
class Cordon:
    """Call the broker's cordon, which also renews. A failed call is not reported: it is asked again."""

    operation: str
    pod_uids: tuple[str, ...]
    ttl_seconds: float = CORDON_TTL_SECONDS


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Lift cordons. Asked again while the view shows them."""

    operation: str
    pod_uids: tuple[str, ...]


CordonAction = Cordon | Uncordon


@dataclass(frozen=True, slots=True)
class Cordons:
    """What was last asked for; the broker may not show it yet."""

    asked: frozenset[str] = frozenset()
    """Pods that are to be cordoned."""
    asked_at: float = float("-inf")
    lifted: frozenset[str] = frozenset()
    """Pods whose cordon was to be lifted."""
    lifted_at: float = float("-inf")
    unseen: bool = False
    """The broker does not show yet what was asked for."""


def cordon_busy(memory: Cordons, view: ScaleInView, now: float) -> tuple[Cordons, tuple[CordonAction, ...]]:
    """Say which cordons to set, renew and lift. Call it with `advance`, and carry it out before pods are added.

    Only cordons of `view.cordon_operation` are touched; a person's stay.
    """
    present = {pod.uid for pod in view.observation.pods if not pod.terminating}
    shown = {uid for uid, operation in view.cordons.items() if operation == view.cordon_operation} & present
    held = shown | {uid for uid in memory.asked & present if uid not in view.cordons}
    wanted = _wanted(view, frozenset(held))
    actions: list[CordonAction] = []
    lift = frozenset(held - wanted)
    if lift and (lift - memory.lifted or now - memory.lifted_at >= RETRY_SECONDS):
        actions.append(Uncordon(view.cordon_operation, tuple(sorted(lift))))
        memory = replace(memory, lifted=lift, lifted_at=now)
    since = now - memory.asked_at
    missing = wanted - shown
    if wanted and (wanted - memory.asked or (missing and since >= RETRY_SECONDS) or since >= RENEW_SECONDS):
        actions.append(Cordon(view.cordon_operation, tuple(sorted(wanted))))
        memory = replace(memory, asked_at=now, lifted=memory.lifted - wanted)
    return replace(memory, asked=wanted, unseen=bool(missing or lift)), tuple(actions)


def next_look(memory: Cordons, now: float) -> float | None:
    """Give the time at which `cordon_busy` must be called even if nothing happens; None: only news matters."""
    if memory.unseen:
        return now + RETRY_SECONDS
    return memory.asked_at + RENEW_SECONDS if memory.asked else None


def _wanted(view: ScaleInView, held: frozenset[str]) -> frozenset[str]:
    """Choose the pods that are to be cordoned: what is cordoned first, then the least loaded."""
    observation = view.observation
    if view.decision.action is not Action.SCALE_IN or observation.rollout_in_progress:
        return frozenset()
    present = [pod for pod in observation.pods if not pod.terminating]
    leaving = len(present) - view.decision.replicas
    if leaving <= 0:
        return frozenset()
    leases = _leases(observation.workers)
    free = [pod for pod in present if not leases.get(pod.uid)]
    emptied = sorted(pod.uid for pod in free if pod.uid in held)[:leaving]
    room = max(0, view.max_draining - census(observation).draining_with_leases)
    short = min(max(0, leaving - len(free)), room)
    busy = sorted((pod for pod in present if leases.get(pod.uid)), key=lambda pod: (leases[pod.uid], pod.uid))
    kept = [pod for pod in busy if pod.uid in held]
    # One whose cordon is being lifted counts until the broker shows it, and one that is free and whose cordon is
    # not shown yet may take a task before it: never too many at once.
    taken = len(kept) + len([uid for uid in emptied if uid not in view.cordons])
    fresh = [pod for pod in busy if pod.uid not in held and _may_be_chosen(pod, view)][: max(0, short - taken)]
    return frozenset((*emptied, *(pod.uid for pod in (*kept[:short], *fresh))))


def _may_be_chosen(pod: PodSample, view: ScaleInView) -> bool:
    """Say whether a cordon would help: its worker is heard, the pod is ready, and nobody else has it cordoned."""
    live = any(worker.live for worker in view.observation.workers if worker.pod_uid == pod.uid)
    return live and pod.ready and pod.uid not in view.cordons


def _leases(workers: tuple[WorkerSample, ...]) -> Mapping[str, int]:
    leases: dict[str, int] = {}
    for worker in workers:
        leases[worker.pod_uid] = leases.get(worker.pod_uid, 0) + worker.leases
    return leases
