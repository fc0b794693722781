"""The SQLite store: a folder with one file, a lock, and one writer."""

from pathlib import Path

import apsw

from leadsman_broker.core.rows import Changes, Loaded, Needs, RunRow, Stored
from leadsman_broker.store.cost import CostLine, CostQuery
from leadsman_broker.store.dead import DeadGroup, DeadQuery
from leadsman_broker.store.errors import StoreError, StoreFencedError, StoreFullError
from leadsman_broker.store.interface import Delivery, RunQuery, Space, TaskPage, TaskQuery, TaskRecord
from leadsman_broker.store.sqlite import writing
from leadsman_broker.store.sqlite.ballast import Ballast
from leadsman_broker.store.sqlite.dead_letters import DeadLetters
from leadsman_broker.store.sqlite.failures import store_error
from leadsman_broker.store.sqlite.listing import Lister
from leadsman_broker.store.sqlite.lock import FolderLock
from leadsman_broker.store.sqlite.log import WriteAheadLog
from leadsman_broker.store.sqlite.opening import FILE_NAME, begin, open_reader, open_writer, take_over
from leadsman_broker.store.sqlite.reading import Reader
from leadsman_broker.store.sqlite.space import RESERVE_BYTES, SpaceGauge
from leadsman_broker.store.sqlite.statements import SQL

BALLAST_BYTES = 16 * 2**20
BALLAST_SHARE = 4
"""The ballast is a quarter of the reserve, at most BALLAST_BYTES: room for the log until it is copied back."""


LOCK_PATIENCE_SECONDS = 60.0
"""How long a commit waits for another program that holds the write lock."""


class SqliteStore:
    """Implements `store.interface.Store` on a local disk or block volume, for one process at a time.

    The writer's connection serves `commit` alone, the lister's `tasks`, the reader's everything else, so that a
    commit on a thread of its own and reads on another do not meet, and no listing makes a worker wait.
    """

    def __init__(self, folder: Path, *, reserve_bytes: int = RESERVE_BYTES) -> None:
        """Open the folder, made if need be.

        Raises StoreLockedError while another process has it, StoreVersionError for a file of a newer program,
        StoreFullError when there is no space to start.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = FolderLock(folder)
        self._ballast = Ballast(folder, min(reserve_bytes // BALLAST_SHARE, BALLAST_BYTES))
        try:
            self._open_or_lighten()
        except BaseException:
            self._lock.release()
            raise
        self._gauge = SpaceGauge(folder, reserve_bytes)
        self._failed = False
        self._ballast.trim(low=self._gauge.read().low)

    @property
    def generation(self) -> int:
        """Grow by one at every opening of the same folder."""
        return self._generation

    def load(self) -> Stored:
        """Return everything a core starts from."""
        return self._reader.load()

    def read(self, needs: Needs) -> Loaded:
        """Return the rows that commands need."""
        return self._reader.read(needs)

    def deliveries(self, task_ids: list[str], *, first: bool = False) -> dict[str, Delivery]:
        """Return payload and more of live tasks, by id."""
        return self._reader.first_deliveries(task_ids) if first else self._reader.deliveries(task_ids)

    def task(self, namespace: str, task_id: str, now: float) -> TaskRecord | None:
        """Return one task, or None."""
        return self._reader.task(namespace, task_id, now)

    def dead(self, query: DeadQuery, now: float) -> TaskPage:
        """Return a page of a dead-letter queue."""
        queue = self._ids.by_key.get((query.namespace, query.capability))
        return self._dead.page(queue, query, now) if queue is not None else TaskPage([], None)

    def dead_groups(self, query: DeadQuery, now: float) -> list[DeadGroup]:
        """Return all that fits, by reason and error."""
        queue = self._ids.by_key.get((query.namespace, query.capability))
        return self._dead.groups(queue, query, now) if queue is not None else []

    def redriven_by(self, operation: str, after: int) -> int:
        """Count the tasks that a redrive of this name brought back last."""
        return self._dead.redriven_by(operation, after)

    def tasks(self, query: TaskQuery, now: float) -> TaskPage:
        """Return a page of tasks."""
        return self._lister.tasks(query, now)

    def cost(self, query: CostQuery) -> list[CostLine]:
        """Return sums of the ledger."""
        return self._lister.cost(query)

    def run(self, namespace: str, run_id: str) -> RunRow | None:
        """Return one run, or None."""
        return self._lister.run(namespace, run_id)

    def runs(self, query: RunQuery) -> list[RunRow]:
        """Return a page of runs."""
        return self._lister.runs(query)

    def payload(self, namespace: str, task_id: str) -> bytes | None:
        """Return the payload of a live or dead task."""
        return self._reader.payload(namespace, task_id)

    def commit(self, changes: Changes) -> None:
        """Make one step durable, all or nothing."""
        if self._failed:
            raise StoreError("an earlier commit failed; memory and file may differ, so the process must end")
        db = self._writer
        try:
            begin(db, self._folder / FILE_NAME, LOCK_PATIENCE_SECONDS)
            self._check_owner(changes)
            writing.write(db, changes, self._ids)
            db.execute("COMMIT")
        except BaseException as error:
            self._failed = True
            if db.in_transaction:
                db.execute("ROLLBACK")
            if not isinstance(error, apsw.Error):
                raise
            raise store_error(error, self._folder) from error
        self._gauge.free_in_file = self._page_size * int(db.pragma("freelist_count"))

    def space(self) -> Space:
        """Say how much room there is."""
        return self._gauge.read()._replace(log_bytes=self._log.size_bytes, log_held_seconds=self._log.held_seconds)

    def tend(self) -> None:
        """Keep the log short."""
        if not self._failed:
            self._log.tend()

    def close(self) -> None:
        """Give up the file and its lock; the log is copied back on the way."""
        self._listing.close()
        self._reading.close()
        self._writer.close()
        self._lock.release()

    def _check_owner(self, changes: Changes) -> None:
        self._writer.execute(SQL["check_owner"], (changes.next_seq, changes.at, self._generation))
        if self._writer.changes() != 1:
            raise StoreFencedError("a newer process has taken this file over; this one may not write any more")

    def _open_or_lighten(self) -> None:
        try:
            self._open()
        except StoreFullError:
            if not self._ballast.drop():
                raise
            self._open()

    def _open(self) -> None:
        path = self._folder / FILE_NAME
        opened: list[apsw.Connection] = []
        try:
            self._writer = open_writer(path)
            opened.append(self._writer)
            self._generation = take_over(self._writer)
            self._reading = open_reader(path)
            opened.append(self._reading)
            self._listing = open_reader(path)
            opened.append(self._listing)
            self._ids = writing.QueueIds(self._writer)
            self._page_size: int = self._writer.pragma("page_size")
        except BaseException as error:
            for connection in opened:
                connection.close()
            if isinstance(error, apsw.Error):
                raise store_error(error, self._folder) from error
            raise
        self._log = WriteAheadLog(self._writer, path)
        self._reader = Reader(self._reading, self._ids.by_id)
        self._lister = Lister(self._listing, self._ids.by_id)
        self._dead = DeadLetters(self._listing, self._ids.by_id)
