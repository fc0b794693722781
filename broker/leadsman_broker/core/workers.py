"""The workers the broker has heard of, and the pods they live in."""

from typing import TYPE_CHECKING

from leadsman.wire.leases import WorkerState
from leadsman_broker.core.commands import Worker
from leadsman_broker.core.rows import CordonRow, FenceRow, WorkerKey, worker_id

if TYPE_CHECKING:
    from leadsman_broker.core.state import State
    from leadsman_broker.core.waiting import Call


class WorkerRow:
    """One life of one worker process. What it holds is the truth that every slot count is derived from."""

    __slots__ = (
        "alone",
        "answered",
        "asked_to_drain",
        "call",
        "capabilities",
        "cordon",
        "draining",
        "fence",
        "heard_at",
        "idle_since",
        "key",
        "last_end",
        "last_served",
        "leases",
        "lost",
        "offers",
        "pod_name",
        "pool",
        "silent",
        "slots",
    )

    def __init__(self, key: WorkerKey, now: float) -> None:
        self.key = key
        self.pool: str | None = None
        self.pod_name: str | None = None
        self.capabilities: tuple[str, ...] = ()
        self.slots = 0
        self.draining = False
        self.fence: FenceRow | None = None
        """The fence on its pod."""
        self.cordon: CordonRow | None = None
        """The cordon on its pod."""
        self.asked_to_drain = False
        """It was there when its pod's cordon asked to drain. One that starts later is not asked: it would end at
        once, be started again by Kubernetes and so on."""
        self.leases: set[int] = set()
        """seqs of the tasks it holds."""
        self.alone = False
        """It holds a suspect task and gets nothing beside it."""
        self.heard_at = now
        self.lost = False
        """A lease of its was lost since it was last heard; its other leases are lost with that one."""
        self.silent = False
        """Not heard for a while, so its slots do not count."""
        self.offers: tuple[tuple[str, ...], int] | None = None
        """What of it is counted in `fleet`: capabilities and slots."""
        self.idle_since = now
        self.last_end = 0.0
        """When a lease of its last ended."""
        self.last_served = ""
        """The capability it was last given a task of."""
        self.call: Call | None = None
        """Its parked lease call."""
        self.answered = ""
        """attempt_id of the last lease call that was given something."""

    @property
    def id(self) -> str:
        """Return the id by which people know it."""
        return worker_id(self.key)

    @property
    def state(self) -> WorkerState:
        """Return what the broker wants of it."""
        if self.fence is not None:
            return WorkerState.FENCED
        if self.draining:
            return WorkerState.DRAINING
        if self.cordon is not None:
            return WorkerState.DRAIN if self.asked_to_drain else WorkerState.CORDONED
        return WorkerState.ACTIVE


def hear(state: "State", who: Worker, capabilities: tuple[str, ...], slots: int) -> WorkerRow:
    """Note that a worker called, and who it says it is."""
    worker = known_worker(state, (who.namespace, who.pod_uid, who.incarnation))
    worker.heard_at = state.now
    worker.lost = False
    if worker.slots != slots or worker.capabilities != capabilities or worker.pool != who.pool or worker.silent:
        worker.silent = False
        worker.slots = slots
        worker.capabilities = capabilities
        worker.pool = who.pool
        state.worker_changed(worker, urgent=True)
    worker.pod_name = who.pod_name
    return worker


def known_worker(state: "State", key: WorkerKey) -> WorkerRow:
    """Return a worker, new if it was not known; what binds its pod binds it from the start."""
    worker = state.workers.get(key)
    if worker is None:
        worker = state.workers[key] = WorkerRow(key, state.now)
        worker.fence = state.fences.get(key[1])
        worker.cordon = state.cordons.get(key[1])
        state.pods.setdefault(key[1], set()).add(key)
        state.alarms.sooner("workers", state.now + state.settings.worker_forget_seconds / 8)
        state.worker_changed(worker, urgent=True)
    return worker


def forget_silent(state: "State") -> None:
    """Forget the workers that hold nothing, wait for nothing and were not heard for long.

    Those that were not heard for a part of that offer no slots meanwhile.
    """
    quiet = state.now - state.settings.worker_silent_seconds
    for worker in state.workers.values():
        if not worker.silent and worker.heard_at <= quiet and worker.call is None:
            worker.silent = True
            state.count_slots(worker)
    before = state.now - state.settings.worker_forget_seconds
    silent = [
        worker
        for worker in state.workers.values()
        if worker.heard_at <= before and not worker.leases and worker.call is None
    ]
    for worker in silent:
        del state.workers[worker.key]
        incarnations = state.pods[worker.key[1]]
        incarnations.discard(worker.key)
        if not incarnations:
            del state.pods[worker.key[1]]
        state.worker_changed(worker, urgent=True)
        state.count_slots(worker, gone=True)
