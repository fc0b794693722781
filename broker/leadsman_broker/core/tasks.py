"""A live task in memory, and its lease while it has one.

Kept small and free of references to other tasks: queues and heaps refer to tasks by seq, so a task that ends is
freed at once without the cyclic collector.
"""

from typing import TYPE_CHECKING, NamedTuple

from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core.making import make
from leadsman_broker.core.rows import LiveRow, Standing
from leadsman_broker.core.usage import NOTHING, Estimate, Usage

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.workers import WorkerRow

READY = TaskState.READY
DELAYED = TaskState.DELAYED
LEASED = TaskState.LEASED


class Settlement(NamedTuple):
    """The last settlement of a task, kept so that a repeated call gets the same answer."""

    epoch: int
    op: str
    state: TaskState


class Lease:
    """Who holds a task, and until when."""

    __slots__ = (
        "attempt_id",
        "expires_at",
        "missing",
        "progress_at",
        "progress_seq",
        "refused",
        "reported",
        "reserved",
        "sent_at",
        "slack",
        "stalled",
        "started_at",
        "token",
        "usage",
        "wakes_at",
        "worker",
    )

    def __init__(  # noqa: PLR0917  # one is made for every delivery, and keywords cost time
        self, token: str, worker: "WorkerRow", attempt_id: str, started_at: float, expires_at: float, slack: float
    ) -> None:
        self.token = token
        self.worker = worker
        self.attempt_id = attempt_id
        self.started_at = started_at
        self.expires_at = expires_at
        self.slack = slack
        """Seconds after the expiry at which it is reclaimed."""
        self.wakes_at = expires_at + slack
        """The time of its entry in the heap of leases; renewal does not move the entry."""
        self.sent_at = started_at
        """When it was last part of a lease reply."""
        self.missing = False
        """The worker's last list did not name it."""
        self.progress_at = started_at
        """When it last showed progress."""
        self.progress_seq = -1
        """The highest it was heard to say; a broker that starts anew knows none."""
        self.refused = False
        """A renewal was refused for want of progress."""
        self.stalled = False
        """The broker stalled and the worker has not renewed it since: its loss is nobody's fault."""
        self.usage = NOTHING
        """What the attempt said it has used."""
        self.reported = False
        """It has said anything at all."""
        self.reserved: Usage | None = None
        """What its budget set aside for it."""


class TaskRow:
    """A task that is delayed, ready or leased. Field meanings: `rows.LiveRow` and `rows.Standing`."""

    __slots__ = (
        "accepted_at",
        "backing_off",
        "cancel",
        "due_at",
        "epoch",
        "estimate",
        "expires_at",
        "failures",
        "history",
        "id",
        "keyed",
        "lease",
        "max_attempts",
        "poison",
        "priority",
        "queue",
        "reclaims",
        "releases",
        "run_id",
        "secret",
        "seq",
        "settled",
        "soon",
        "state",
        "suspect",
        "task_class",
        "tenant",
    )

    def __init__(  # noqa: PLR0917  # a million are built at a start, and keywords cost time
        self,
        seq: int,
        task_id: str,
        queue: "Queue",
        tenant: str,
        task_class: TaskClass,
        priority: int,
        keyed: bool,
        accepted_at: float,
        max_attempts: int,
        due_at: float,
        expires_at: float | None,
        run_id: str = "",
        estimate: Estimate | None = None,
    ) -> None:
        self.seq = seq
        self.id = task_id
        self.queue = queue
        self.tenant = tenant
        self.task_class = task_class
        self.priority = priority
        self.keyed = keyed
        self.accepted_at = accepted_at
        self.max_attempts = max_attempts
        self.due_at = due_at
        """While ready: since when it could be leased."""
        self.expires_at = expires_at
        self.run_id = run_id
        self.estimate = estimate
        self.backing_off = False
        self.epoch = 0
        self.secret = ""
        self.failures = 0
        self.reclaims = 0
        self.releases = 0
        self.poison = 0
        self.suspect = False
        self.cancel = False
        self.history = 0
        self.settled: Settlement | None = None
        self.lease: Lease | None = None
        self.state = READY
        self.soon = False
        """Delayed, and counted in its queue's `due_soon`."""

    @property
    def spent(self) -> int:
        """Attempts used up: releases are free."""
        return self.failures + self.reclaims


_NO_SETTLEMENT = (0, "", None)


def standing_of(row: TaskRow) -> Standing:
    """Return the part of a task that changes, as stored."""
    settled_epoch, settled_op, settled_state = row.settled or _NO_SETTLEMENT
    pod = incarnation = pool = attempt_id = started_at = expires_at = None
    lease = row.lease
    if lease is not None:
        worker = lease.worker
        _, pod, incarnation = worker.key
        pool = worker.pool
        attempt_id, started_at, expires_at = lease.attempt_id, lease.started_at, lease.expires_at
    return make(
        Standing,
        (
            row.due_at,
            row.backing_off,
            row.expires_at,
            row.epoch,
            row.secret,
            row.failures,
            row.reclaims,
            row.releases,
            row.poison,
            row.suspect,
            row.cancel,
            row.history,
            settled_epoch,
            settled_op,
            settled_state,
            pod,
            incarnation,
            pool,
            attempt_id,
            started_at,
            expires_at,
        ),
    )


def live_row_of(row: TaskRow) -> LiveRow:
    """Return a task as stored."""
    namespace, capability = row.queue.key
    return make(
        LiveRow,
        (
            row.seq,
            row.id,
            namespace,
            capability,
            row.tenant,
            row.task_class,
            row.priority,
            row.keyed,
            row.accepted_at,
            row.max_attempts,
            row.run_id,
            row.estimate,
            standing_of(row),
        ),
    )


def task_from(stored: LiveRow, queue: "Queue") -> TaskRow:
    """Build a task from its stored row, without its lease and its place in the queue."""
    standing = stored.standing
    row = TaskRow(
        stored.seq,
        stored.id,
        queue,
        stored.tenant,
        stored.task_class,
        stored.priority,
        stored.keyed,
        stored.accepted_at,
        stored.max_attempts,
        standing.due_at,
        standing.expires_at,
        stored.run_id,
        stored.estimate,
    )
    if standing.epoch or standing.history:  # most rows of a long queue were never touched
        row.backing_off = standing.backing_off
        row.epoch = standing.epoch
        row.secret = standing.secret
        row.failures = standing.failures
        row.reclaims = standing.reclaims
        row.releases = standing.releases
        row.poison = standing.poison
        row.suspect = standing.suspect
        row.cancel = standing.cancel
        row.history = standing.history
        if standing.settled_state is not None:
            row.settled = Settlement(standing.settled_epoch, standing.settled_op, standing.settled_state)
    return row
