"""What the current step must make durable, gathered while it runs."""

from leadsman_broker.core.accounts import Account
from leadsman_broker.core.commands import NewTask
from leadsman_broker.core.making import make
from leadsman_broker.core.openings import OpeningRow
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.rows import (
    AcceptedRow,
    AttemptKey,
    BudgetRow,
    Changes,
    CordonRow,
    Ending,
    FenceRow,
    HistoryRow,
    LedgerRow,
    NamespaceRow,
    OnceRow,
    PauseRow,
    PurgedRow,
    QueueKey,
    RedriveRow,
    RunKey,
)
from leadsman_broker.core.run import Run
from leadsman_broker.core.tasks import TaskRow, live_row_of


class Outbox:
    """Touched rows are written as they stand when the step ends, each once, however often they changed."""

    __slots__ = (
        "budgets",
        "budgets_turned",
        "checkpoints",
        "cordons",
        "ended",
        "fences",
        "forgotten",
        "history",
        "ledger",
        "ledger_purged",
        "namespaces",
        "new",
        "once",
        "openings",
        "openings_before",
        "pauses",
        "purged",
        "redriven",
        "restored",
        "revived",
        "runs",
        "runs_purged",
        "service_times",
        "totals",
        "touched",
    )

    def __init__(self) -> None:
        self.new: list[tuple[TaskRow, NewTask]] = []
        self.touched: dict[int, TaskRow] = {}
        self.revived: list[TaskRow] = []
        self.checkpoints: dict[int, bytes] = {}
        self.once: list[OnceRow] = []
        self.redriven: dict[int, RedriveRow] = {}
        self.history: list[HistoryRow] = []
        self.ended: dict[int, Ending] = {}
        self.purged: list[PurgedRow] = []
        self.namespaces: dict[str, NamespaceRow] = {}
        self.fences: dict[str, FenceRow | None] = {}
        self.cordons: dict[str, CordonRow | None] = {}
        self.pauses: dict[QueueKey, PauseRow | None] = {}
        self.totals: set[Queue] = set()
        self.service_times: dict[QueueKey, tuple[float, ...]] = {}
        self.forgotten: list[QueueKey] = []
        self.restored = False
        self.ledger: dict[AttemptKey, LedgerRow] = {}
        self.ledger_purged: list[AttemptKey] = []
        self.runs: dict[RunKey, Run] = {}
        self.runs_purged: list[RunKey] = []
        self.budgets: dict[tuple[QueueKey, str | None], Account] = {}
        self.budgets_turned: dict[QueueKey, float] = {}
        self.openings: dict[tuple[QueueKey, str | None, bool], float] = {}
        self.openings_before = 0.0

    def accept(self, row: TaskRow, task: NewTask) -> None:
        """Write a new task."""
        self.new.append((row, task))

    def opened(self, queue: Queue, at: float, *, tenant: str | None = None, interactive: bool = False) -> None:
        """Write when a queue, or a tenant's tasks of a class, could be leased again."""
        self.openings[queue.key, tenant, interactive] = at

    def record(self, row: TaskRow, now: float, event: str, worker: str | None, detail: str | None) -> None:
        """Add to a task's history."""
        row.history += 1
        self.touched[row.seq] = row
        began = row.lease.started_at if row.lease is not None else None
        self.history.append(HistoryRow(row.seq, row.history, now, event, row.epoch, worker, detail, began))

    def end(self, row: TaskRow, ending: Ending) -> None:
        """Write the end of a task; what was still to be written of it is part of the ending."""
        self.touched.pop(row.seq, None)
        self.ended[row.seq] = ending

    def changes(self, now: float, next_seq: int) -> Changes:
        """Return what was gathered, as rows of the moment."""
        touched = self.touched
        for row, _ in self.new:
            touched.pop(row.seq, None)
        for row in self.revived:
            touched.pop(row.seq, None)
        return Changes(
            at=now,
            next_seq=next_seq,
            accepted=[
                make(
                    AcceptedRow,
                    (
                        live_row_of(row),
                        task.name,
                        task.payload,
                        task.idempotency_key,
                        task.fingerprint,
                        task.traceparent,
                    ),
                )
                for row, task in self.new
            ],
            revived=[live_row_of(row) for row in self.revived],
            updated=[live_row_of(row) for row in touched.values()],
            checkpoints=self.checkpoints,
            once=self.once,
            redriven=self.redriven,
            history=self.history,
            ended=[*self.ended.values()],
            purged=self.purged,
            namespaces=self.namespaces,
            fences=self.fences,
            cordons=self.cordons,
            pauses=self.pauses,
            totals={queue.key: queue.totals.row() for queue in self.totals},
            service_times=self.service_times,
            forgotten=self.forgotten,
            restored=self.restored,
            ledger=self.ledger,
            ledger_purged=self.ledger_purged,
            runs={key: run.row() for key, run in self.runs.items()},
            runs_purged=self.runs_purged,
            budgets_turned=self.budgets_turned,
            budgets=[
                BudgetRow(*queue, tenant, account.starts_at, account.settled)
                for (queue, tenant), account in self.budgets.items()
            ],
            openings=[
                OpeningRow(*queue, tenant, interactive, at)
                for (queue, tenant, interactive), at in self.openings.items()
            ],
            openings_before=self.openings_before,
        )
