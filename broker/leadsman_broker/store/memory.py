"""The store without a disk: for `--memory`, for development and for tests. Nothing outlives the process."""

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from leadsman.wire.costs import CostBy
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.openings import OpeningRow
from leadsman_broker.core.rows import (
    HISTORY_LIMIT,
    AcceptedRow,
    AttemptKey,
    AttemptOutcome,
    BudgetRow,
    Changes,
    CordonRow,
    Ending,
    FenceRow,
    HistoryRow,
    KeyId,
    KeyRow,
    LedgerRow,
    LiveRow,
    Loaded,
    NamespaceRow,
    Needs,
    PauseRow,
    PurgedRow,
    QueueKey,
    RedriveRow,
    RunKey,
    RunRow,
    Stored,
    TotalsRow,
)
from leadsman_broker.core.usage import NOTHING, Usage
from leadsman_broker.store.cost import CostLine, CostQuery
from leadsman_broker.store.dead import DeadGroup, DeadQuery, merge_groups
from leadsman_broker.store.errors import StoreFencedError
from leadsman_broker.store.interface import Delivery, RunQuery, Space, TaskPage, TaskQuery, TaskRecord, once_object


class _Kept(NamedTuple):
    """What of a task never changes."""

    name: str
    key: str | None
    fingerprint: bytes
    traceparent: str | None


class MemoryTables:
    """The contents, apart from the store that has them open: a second store on them takes over from the first."""

    def __init__(self) -> None:
        self.generation = 0
        self.next_seq = 1
        self.last_at = 0.0
        self.restored_below = 0
        self.restoring = False
        self.live: dict[int, LiveRow] = {}
        self.kept: dict[int, _Kept] = {}
        self.payloads: dict[int, bytes] = {}
        self.checkpoints: dict[int, bytes] = {}
        self.once: dict[int, dict[str, bytes]] = {}
        self.redriven: dict[int, RedriveRow] = {}
        self.history: dict[int, deque[HistoryRow]] = {}
        self.ended: dict[int, Ending] = {}
        self.purges: list[tuple[float, int]] = []
        """(purge_at, seq) of the ended, sorted."""
        self.dead: dict[QueueKey, list[int]] = {}
        """seqs of each queue's dead, sorted."""
        self.keys: dict[KeyId, tuple[str, bytes]] = {}
        self.namespaces: dict[str, NamespaceRow] = {}
        self.fences: dict[str, FenceRow] = {}
        self.cordons: dict[str, CordonRow] = {}
        self.pauses: dict[QueueKey, PauseRow] = {}
        self.totals: dict[QueueKey, TotalsRow] = {}
        self.service_times: dict[QueueKey, tuple[float, ...]] = {}
        self.ledger: dict[AttemptKey, LedgerRow] = {}
        self.ledger_due = math.inf
        """No row of the ledger is to be purged before."""
        self.runs: dict[RunKey, RunRow] = {}
        self.budgets: dict[tuple[QueueKey, str | None], BudgetRow] = {}
        self.openings: dict[tuple[QueueKey, str | None, bool], OpeningRow] = {}


class MemoryStore:
    """Implements `store.interface.Store`."""

    def __init__(self, tables: MemoryTables | None = None) -> None:
        self._tables = tables if tables is not None else MemoryTables()
        self._tables.generation += 1
        self._generation = self._tables.generation

    @property
    def generation(self) -> int:
        """Grow by one at every opening of the same tables."""
        return self._generation

    def load(self) -> Stored:
        """Return everything a core starts from."""
        tables = self._tables
        return Stored(
            tasks=[tables.live[seq] for seq in sorted(tables.live)],
            next_seq=tables.next_seq,
            last_at=tables.last_at,
            restored_below=tables.restored_below,
            restoring=tables.restoring,
            dead={key: len(seqs) for key, seqs in tables.dead.items()},
            namespaces=[*tables.namespaces.values()],
            fences=[*tables.fences.values()],
            cordons=[*tables.cordons.values()],
            pauses=[*tables.pauses.values()],
            totals=dict(tables.totals),
            service_times=dict(tables.service_times),
            budgets=[*tables.budgets.values()],
            openings=[*tables.openings.values()],
            runs=[row for row in tables.runs.values() if row.purge_at is None],
            running=[row for row in tables.ledger.values() if row.outcome is AttemptOutcome.RUNNING],
        )

    def read(self, needs: Needs) -> Loaded:
        """Return the rows that commands need."""
        tables = self._tables
        loaded = Loaded()
        for key in needs.keys:
            held = tables.keys.get(key)
            if held is not None:
                task_id, fingerprint = held
                ending = self._ending(task_id)
                state = ending.ended.state if ending is not None else None
                loaded.keys[key] = KeyRow(
                    task_id, fingerprint, state, ending.ended.ended_at if ending is not None else None
                )
        for task_id in needs.ended:
            ending = self._ending(task_id)
            if ending is not None:
                loaded.ended[task_id] = ending.ended
        for task_id in needs.once:
            if values := tables.once.get(seq_of(task_id) or 0):
                loaded.once[task_id] = dict(values)
        for task_id in needs.redriven:
            redrive = tables.redriven.get(seq_of(task_id) or 0)
            if redrive is not None:
                loaded.redriven[task_id] = redrive
        if needs.purge_limit:
            due = bisect_right(tables.purges, needs.purge_before, key=lambda entry: entry[0])
            for _, seq in tables.purges[: min(due, needs.purge_limit)]:
                live, state = tables.ended[seq].ended[:2]
                loaded.purge.append(PurgedRow(seq, live.id, live.namespace, live.capability, state))
            old = []
            if tables.ledger_due <= needs.purge_before:
                ended = [
                    (row.purge_at, key)
                    for key, row in tables.ledger.items()
                    if row.outcome is not AttemptOutcome.RUNNING
                ]
                tables.ledger_due = min((at for at, _ in ended), default=math.inf)
                old = [(at, key) for at, key in ended if at <= needs.purge_before]
            past = [
                (row.purge_at, key)
                for key, row in tables.runs.items()
                if row.purge_at is not None and row.purge_at <= needs.purge_before
            ]
            loaded.run_purge = [key for _, key in sorted(past)[: needs.purge_limit]]
            loaded.ledger_purge = [key for _, key in sorted(old)[: needs.purge_limit]]
        wanted = needs.runs | {(row.live.namespace, row.live.run_id) for row in loaded.ended.values()}
        loaded.runs = {key: tables.runs[key] for key in wanted if key in tables.runs}
        loaded.ledger = {key: tables.ledger[key] for key in needs.attempts if key in tables.ledger}
        return loaded

    def deliveries(self, task_ids: list[str], *, first: bool = False) -> dict[str, Delivery]:
        """Return payload and more of live tasks, by id."""
        tables = self._tables
        found = {}
        for task_id in task_ids:
            live = tables.live.get(seq_of(task_id) or 0)
            if live is not None and live.id == task_id:
                kept = tables.kept[live.seq]
                checkpoint = tables.checkpoints.get(live.seq)
                values = tables.once.get(live.seq)
                found[task_id] = Delivery(
                    kept.name,
                    tables.payloads[live.seq],
                    checkpoint,
                    kept.traceparent,
                    once_object(values) if values else None,
                )
        return found

    def task(self, namespace: str, task_id: str, now: float) -> TaskRecord | None:
        """Return one task, or None."""
        seq = seq_of(task_id) or 0
        live = self._tables.live.get(seq)
        if live is not None:
            known = (live.id, live.namespace) == (task_id, namespace)
            return self._with_usage(self._record(live, None)) if known else None
        ending = self._ending(task_id)
        if ending is None or ending.ended.live.namespace != namespace or ending.ended.visible_until <= now:
            return None
        return self._with_usage(self._record(ending.ended.live, ending))

    def dead(self, query: DeadQuery, now: float) -> TaskPage:
        """Return a page of a dead-letter queue."""
        found = list(islice(self._dead(query, now, query.after), query.limit + 1))
        records = [self._record(ending.ended.live, ending)._replace(history=()) for ending in found[: query.limit]]
        return TaskPage(records, records[-1].live.seq if len(found) > query.limit else None)

    def dead_groups(self, query: DeadQuery, now: float) -> list[DeadGroup]:
        """Return all that fits, by reason and error."""
        return merge_groups(
            [
                DeadGroup(
                    ending.reason or "",
                    ending.error_type or "",
                    1,
                    ending.ended.ended_at,
                    ending.ended.ended_at,
                    ending.ended.live.seq,
                    ending.ended.live.id,
                    ending.error_message,
                )
                for ending in self._dead(query, now, 0)
            ]
        )

    def redriven_by(self, operation: str, after: int) -> int:
        """Count the tasks that a redrive of this name brought back last."""
        return sum(seq > after and row.operation == operation for seq, row in self._tables.redriven.items())

    def _dead(self, query: DeadQuery, now: float, after: int) -> Iterator[Ending]:
        tables = self._tables
        seqs = tables.dead.get((query.namespace, query.capability), [])
        for seq in seqs[bisect_right(seqs, after) :]:
            ending = tables.ended[seq]
            if ending.ended.visible_until > now and query.matches(ending, tables.kept[seq].name):
                yield ending

    def tasks(self, query: TaskQuery, now: float) -> TaskPage:
        """Return a page of tasks."""
        tables = self._tables
        found: list[TaskRecord] = []
        for seq in sorted([*tables.live, *tables.ended]):
            live, ending = tables.live.get(seq), tables.ended.get(seq)
            row = live if live is not None else ending.ended.live if ending is not None else None
            if seq <= query.after or row is None or not query.matches(row):
                continue
            record = self._record(row, ending if live is None else None)._replace(history=())
            if record.ended is not None and record.ended.visible_until <= now:
                continue
            if query.state is not None and record.state_at(now) is not query.state:
                continue
            if len(found) == query.limit:
                return TaskPage(found, found[-1].live.seq)
            found.append(record)
        return TaskPage(found, None)

    def run(self, namespace: str, run_id: str) -> RunRow | None:
        """Return one run, or None."""
        return self._tables.runs.get((namespace, run_id))

    def runs(self, query: RunQuery) -> list[RunRow]:
        """Return a page of runs."""
        rows = [
            row
            for row in list(self._tables.runs.values())
            if row.namespace == query.namespace
            and query.state in {None, row.state}
            and (query.before is None or (row.created_at, row.id) < query.before)
        ]
        return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)[: query.limit]

    def cost(self, query: CostQuery) -> list[CostLine]:
        """Return sums of the ledger."""
        items: dict[str, list[LedgerRow]] = {}
        for row in list(self._tables.ledger.values()):
            if (
                row.namespace == query.namespace
                and query.since <= row.leased_at < query.until
                and query.capability in {None, row.capability}
                and query.tenant in {None, row.tenant}
                and query.run_id in {None, row.run_id}
            ):
                items.setdefault(_item_of(row, query.by), []).append(row)
        lines = [_cost_line(item, rows) for item, rows in items.items()]
        lines.sort(key=lambda line: (-line.usage.cost_micros, -line.usage.tokens, line.item))
        return lines[: query.limit]

    def payload(self, namespace: str, task_id: str) -> bytes | None:
        """Return the payload of a live or dead task."""
        seq = seq_of(task_id) or 0
        ending = self._tables.ended.get(seq)
        live = self._tables.live.get(seq) or (ending.ended.live if ending is not None else None)
        if live is None or (live.id, live.namespace) != (task_id, namespace):
            return None
        return self._tables.payloads.get(seq)

    def commit(self, changes: Changes) -> None:
        """Apply one step."""
        tables = self._tables
        if tables.generation != self._generation:
            raise StoreFencedError("another store has these tables open now")
        tables.next_seq = max(tables.next_seq, changes.next_seq)
        tables.last_at = max(tables.last_at, changes.at)
        for accepted in changes.accepted:
            self._accept(accepted)
        for live in changes.revived:
            tables.live[live.seq] = live
            self._drop_ended(live.seq)
        for live in changes.updated:
            tables.live[live.seq] = live
        tables.checkpoints.update(changes.checkpoints)
        tables.redriven.update(changes.redriven)
        for one in changes.once:
            tables.once.setdefault(one.seq, {})[one.key] = one.value
        for entry in changes.history:
            tables.history.setdefault(entry.seq, deque(maxlen=HISTORY_LIMIT)).append(entry)
        for ending in changes.ended:
            self._end(ending)
        for purged in changes.purged:
            self._purge(purged.seq)
        tables.namespaces.update(changes.namespaces)
        for pod_uid, fence in changes.fences.items():
            if fence is None:
                tables.fences.pop(pod_uid, None)
            else:
                tables.fences[pod_uid] = fence
        for pod_uid, cordon in changes.cordons.items():
            if cordon is None:
                tables.cordons.pop(pod_uid, None)
            else:
                tables.cordons[pod_uid] = cordon
        for queue, pause in changes.pauses.items():
            if pause is None:
                tables.pauses.pop(queue, None)
            else:
                tables.pauses[queue] = pause
        tables.totals.update(changes.totals)
        tables.service_times.update(changes.service_times)
        if changes.restored:
            tables.restoring = False
        for key in changes.forgotten:
            tables.totals.pop(key, None)
            tables.service_times.pop(key, None)
            for place in [known for known in tables.openings if known[0] == key]:
                del tables.openings[place]
        for attempt, row in changes.ledger.items():
            tables.ledger[attempt] = row
            tables.ledger_due = min(tables.ledger_due, row.purge_at)
        for key, starts_at in changes.budgets_turned.items():
            for account in [known for known in tables.budgets if known[0] == key]:
                if tables.budgets[account].starts_at < starts_at:
                    del tables.budgets[account]
        if changes.openings_before:
            for place in [known for known in tables.openings if known[1] is not None]:
                if tables.openings[place].at < changes.openings_before:
                    del tables.openings[place]
        for opening in changes.openings:
            opened = (opening.namespace, opening.capability)
            tables.openings[opened, opening.tenant, opening.interactive] = opening
        for budget in changes.budgets:
            tables.budgets[(budget.namespace, budget.capability), budget.tenant] = budget
        tables.runs.update(changes.runs)
        for run in changes.runs_purged:
            tables.runs.pop(run, None)
        for attempt in changes.ledger_purged:
            tables.ledger.pop(attempt, None)

    def space(self) -> Space:
        """Say that memory is not bounded here."""
        return Space(None, low=False)

    def tend(self) -> None:
        """Do nothing: there is no log."""

    def close(self) -> None:
        """Do nothing: the tables go with their last reference."""

    def _ending(self, task_id: str) -> Ending | None:
        ending = self._tables.ended.get(seq_of(task_id) or 0)
        return ending if ending is not None and ending.ended.live.id == task_id else None

    def _record(self, live: LiveRow, ending: Ending | None) -> TaskRecord:
        kept = self._tables.kept[live.seq]
        return TaskRecord(
            live,
            kept.name,
            kept.key,
            kept.traceparent,
            ending.ended if ending is not None else None,
            ending.reason if ending is not None else None,
            ending.error_type if ending is not None else None,
            ending.error_message if ending is not None else None,
            ending.result if ending is not None else None,
            tuple(self._tables.history.get(live.seq, ())),
        )

    def _with_usage(self, record: TaskRecord) -> TaskRecord:
        rows = list(self._tables.ledger.values())
        used = [row.usage for row in rows if row.seq == record.live.seq and row.reported]
        return record._replace(usage=_total(used)) if used else record

    def _accept(self, accepted: AcceptedRow) -> None:
        tables = self._tables
        live = accepted.live
        tables.live[live.seq] = live
        tables.kept[live.seq] = _Kept(accepted.name, accepted.key, accepted.fingerprint, accepted.traceparent)
        tables.payloads[live.seq] = accepted.payload
        if accepted.key is not None:
            key = (live.namespace, live.capability, live.tenant, accepted.key)
            tables.keys[key] = (live.id, accepted.fingerprint)

    def _end(self, ending: Ending) -> None:
        tables = self._tables
        seq = ending.ended.live.seq
        del tables.live[seq]
        tables.ended[seq] = ending
        insort(tables.purges, (ending.ended.purge_at, seq))
        if ending.ended.state is TaskState.DEAD:
            insort(tables.dead.setdefault(_queue_of(ending), []), seq)
        else:
            tables.payloads.pop(seq, None)
            tables.checkpoints.pop(seq, None)
            tables.once.pop(seq, None)

    def _purge(self, seq: int) -> None:
        tables = self._tables
        ending = self._drop_ended(seq)
        kept = tables.kept.pop(seq, None)
        tables.payloads.pop(seq, None)
        tables.checkpoints.pop(seq, None)
        tables.once.pop(seq, None)
        tables.redriven.pop(seq, None)
        tables.history.pop(seq, None)
        if kept is not None and kept.key is not None:
            live = ending.ended.live
            key = (live.namespace, live.capability, live.tenant, kept.key)
            if tables.keys.get(key, ("",))[0] == live.id:
                del tables.keys[key]

    def _drop_ended(self, seq: int) -> Ending:
        tables = self._tables
        ending = tables.ended.pop(seq)
        del tables.purges[bisect_left(tables.purges, (ending.ended.purge_at, seq))]
        if ending.ended.state is TaskState.DEAD:
            key = _queue_of(ending)
            seqs = tables.dead[key]
            del seqs[bisect_left(seqs, seq)]
            if not seqs:
                del tables.dead[key]
        return ending


def _queue_of(ending: Ending) -> QueueKey:
    return ending.ended.live.namespace, ending.ended.live.capability


def _item_of(row: LedgerRow, by: CostBy | None) -> str:
    match by:
        case CostBy.CAPABILITY:
            return row.capability
        case CostBy.TENANT:
            return row.tenant
        case CostBy.RUN:
            return row.run_id
        case CostBy.TASK:
            return row.task_id
    return ""


def _cost_line(item: str, rows: list[LedgerRow]) -> CostLine:
    counts = [sum(row.outcome is outcome for row in rows) for outcome in AttemptOutcome]
    lost = [row.usage for row in rows if row.outcome is AttemptOutcome.LOST]
    return CostLine._make((item, len(rows), *counts, _total([row.usage for row in rows]), _total(lost)))


def _total(used: list[Usage]) -> Usage:
    total = NOTHING
    for usage in used:
        total = total.plus(usage)
    return total
