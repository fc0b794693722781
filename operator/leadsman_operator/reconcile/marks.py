"""Marks on busy pods, so that whoever else takes pods away takes another one: node autoscalers, descaling by hand.

Set at a worker's first lease, taken off when it has been idle for the scale-in window; a worker that takes a task a
second costs two writes, not two a second.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leadsman_operator.kube.pods import BUSY_COST, BUSY_MARKS, DELETION_COST
from leadsman_operator.scaling.model import PoolObservation

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MarkChange:
    """A pod whose annotations are to be changed; None removes one."""

    name: str
    uid: str
    annotations: Mapping[str, str | None]


def mark_changes(
    observation: PoolObservation, pods: tuple[Object, ...], idle_seconds: float
) -> Iterator[MarkChange]:
    """Give the pods to mark as busy, then those to unmark; a mark outlives the last task by `idle_seconds`."""
    leases: dict[str, int] = {}
    idle: dict[str, float] = {}
    fenced: set[str] = set()
    for worker in observation.workers:
        leases[worker.pod_uid] = leases.get(worker.pod_uid, 0) + worker.leases
        idle[worker.pod_uid] = min(idle.get(worker.pod_uid, float("inf")), worker.idle_seconds)
        if worker.fenced:
            fenced.add(worker.pod_uid)
    unmark = []
    for pod in pods:
        meta = pod["metadata"]
        uid = meta["uid"]
        if "deletionTimestamp" in meta or uid in fenced:
            continue
        annotations = meta.get("annotations") or {}
        present = {key: annotations[key] for key in BUSY_MARKS if key in annotations}
        if leases.get(uid):
            if present != dict(BUSY_MARKS):
                yield MarkChange(meta["name"], uid, BUSY_MARKS)
        elif _ours(present) and uid in idle and idle[uid] >= idle_seconds:
            unmark.append(MarkChange(meta["name"], uid, dict.fromkeys(present)))
    yield from unmark


def _ours(present: Mapping[str, str]) -> bool:
    """Whether what is there are our marks; a deletion cost of somebody else's stays."""
    return present.get(DELETION_COST) == str(BUSY_COST)
