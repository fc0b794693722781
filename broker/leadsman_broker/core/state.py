"""All that the core remembers. Rules live in the modules beside it; this one only holds and marks."""

from math import inf

from leadsman_broker.core.alarms import Alarms
from leadsman_broker.core.fleet import Fleet
from leadsman_broker.core.gates import Gate
from leadsman_broker.core.outbox import Outbox
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.randomness import Randomness
from leadsman_broker.core.results import Answer
from leadsman_broker.core.rows import (
    CordonRow,
    FenceRow,
    Loaded,
    NamespaceRow,
    PauseRow,
    QueueKey,
    RunKey,
    WorkerKey,
)
from leadsman_broker.core.run import Run
from leadsman_broker.core.settings import Settings
from leadsman_broker.core.tasks import TaskRow
from leadsman_broker.core.waiting import Call
from leadsman_broker.core.workers import WorkerRow


class State:
    """Live tasks, queues, workers, fences, and the heaps of what happens when."""

    __slots__ = (
        "alarms",
        "answers",
        "call_ends",
        "calls",
        "changed_queues",
        "changed_workers",
        "cordons",
        "ends_left",
        "expiries",
        "fences",
        "fences_changed",
        "fleet",
        "gates",
        "held",
        "hot",
        "hot_again",
        "lease_ends",
        "loaded",
        "namespaces",
        "newest_opening",
        "next_seq",
        "now",
        "oldest_opening",
        "opened",
        "openings_swept_at",
        "out",
        "passing_runs",
        "pauses",
        "pods",
        "queues",
        "rand",
        "restored_below",
        "run_ends",
        "runs",
        "settings",
        "stamp",
        "stopping",
        "tasks",
        "urgent",
        "workers",
    )

    def __init__(self, settings: Settings, now: float, rand: Randomness) -> None:
        self.settings = settings
        self.now = now
        """The broker's clock in the current step."""
        self.rand = rand
        self.loaded = Loaded()
        """What the store holds that the commands of the step need, and what they have changed of it."""
        self.next_seq = 1
        self.restored_below = 0
        """Tasks with a seq below it may have run in the time that a restored backup does not know of."""
        self.tasks: dict[int, TaskRow] = {}
        """Live tasks by seq."""
        self.held: dict[str, TaskRow] = {}
        """Leased tasks by the token that holds them."""
        self.queues: dict[QueueKey, Queue] = {}
        self.namespaces: dict[str, NamespaceRow] = {}
        self.pauses: dict[QueueKey, PauseRow] = {}
        """Also of queues that are gone: one that comes back is still paused."""
        self.workers: dict[WorkerKey, WorkerRow] = {}
        self.pods: dict[str, set[WorkerKey]] = {}
        self.fences: dict[str, FenceRow] = {}
        self.cordons: dict[str, CordonRow] = {}
        self.fleet = Fleet()
        """Slots that the workers offer each queue."""

        self.gates: tuple[Gate, ...] = ()
        """Asked in this order about every task before it is leased."""
        self.calls: dict[int, Call] = {}
        """Parked lease calls by number."""
        self.stamp = 0
        self.hot: dict[QueueKey, None] = {}
        """Queues to look at in the next dispatch, in order of arrival."""
        self.hot_again: dict[QueueKey, None] = {}
        """Queues to look at in the dispatch of the next step: this one has ended enough tasks."""
        self.ends_left = 0
        """How many tasks this dispatch may still end, over their ttl or of a stopped run, or set aside."""
        self.answers: list[Answer] = []

        self.lease_ends: list[tuple[float, int, int]] = []
        """Heap of (reclaim time, seq, epoch); an entry may be earlier than the truth, never later."""
        self.expiries: list[tuple[float, int]] = []
        """Heap of (end of ttl, seq)."""
        self.call_ends: list[tuple[float, int]] = []
        """Heap of (end of wait, call)."""
        self.alarms = Alarms()
        """Delayed tasks, start-up horizons, suspects, service times, fences: see `timers`."""

        self.runs: dict[RunKey, Run] = {}
        """Those that have live tasks or wait for their deadline, and those that the step has looked at."""
        self.run_ends: list[tuple[float, RunKey]] = []
        """Heap of (deadline, run)."""
        self.stopping: list[list[int]] = []
        """seqs of tasks that are to be cancelled because their run was stopped."""
        self.passing_runs: list[Run] = []

        self.opened: dict[tuple[QueueKey, str | None], None] = {}
        """Queues (None) and tenants that a ceiling or a cap stopped blocking in the step, if only for a moment."""
        self.openings_swept_at = 0.0
        self.oldest_opening = inf
        """Of the tenants' in the store, none is older; infinite when there are none."""
        self.newest_opening = 0.0
        """Of the tenants' that were ever stored."""

        self.out = Outbox()
        self.changed_queues: set[QueueKey] = set()
        self.changed_workers: set[WorkerKey] = set()
        self.fences_changed = False
        """Or the cordons."""
        self.urgent = False

    def queue_changed(self, queue: Queue, *, urgent: bool = False) -> None:
        """Note that a queue's stats are not what they were."""
        self.changed_queues.add(queue.key)
        if urgent:
            self.urgent = True

    def worker_changed(self, worker: WorkerRow, *, urgent: bool = False) -> None:
        """Note that a worker's stats are not what they were; urgent is whatever changes what it may be given."""
        self.changed_workers.add(worker.key)
        if urgent:
            self.urgent = True
            self.count_slots(worker)

    def count_slots(self, worker: WorkerRow, *, gone: bool = False) -> None:
        """Follow a change of what a worker offers; more slots may let more background work run."""
        for key in self.fleet.count(worker, gone=gone):
            queue = self.queues.get(key)
            if queue is not None and queue.rules.interactive_reserve_percent and queue.ready:
                self.hot[key] = None
