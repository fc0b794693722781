"""Opening the file: settings, version, ownership."""

import time
from pathlib import Path
from typing import cast

import apsw
import structlog

from leadsman_broker.store.errors import StoreError, StoreVersionError
from leadsman_broker.store.sqlite.migrations import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION, migrate
from leadsman_broker.store.sqlite.statements import FORMS, SQL

WRITER_CACHE_KIB = 32_768
READER_CACHE_KIB = 8_192
CHECKPOINT_PAGES = 2_000
"""The log is copied back into the file at about 8 MiB."""
LOG_LIMIT_BYTES = 16 * 2**20
"""What of the log file is kept on disk after a long one was copied back."""
BUSY_MILLISECONDS = 5_000

FILE_NAME = "leadsman.db"

log = structlog.get_logger()


def open_writer(path: Path) -> apsw.Connection:
    """Open the file for writing, make it if it is not there, and check that it is one this program may use."""
    db = apsw.Connection(str(path), statementcachesize=FORMS)
    try:
        db.set_busy_timeout(BUSY_MILLISECONDS)
        check_version(db, path)
        _use_log(db, path)
        db.pragma("synchronous", "full")
        db.pragma("cache_size", -WRITER_CACHE_KIB)
        db.pragma("journal_size_limit", LOG_LIMIT_BYTES)
        db.wal_autocheckpoint(CHECKPOINT_PAGES)
    except apsw.NotADBError as error:
        db.close()
        raise StoreVersionError(f"{path} is not a database") from error
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path) -> apsw.Connection:
    """Open the file for reading beside the writer."""
    db = apsw.Connection(str(path))
    db.set_busy_timeout(BUSY_MILLISECONDS)
    db.pragma("query_only", "on")
    db.pragma("cache_size", -READER_CACHE_KIB)
    return db


def take_over(db: apsw.Connection) -> int:
    """Bring the file to this program's version, and return the generation that this process commits under.

    One transaction: from the moment the tables are new, every earlier owner's commit fails.
    """
    with immediately(db):
        found = migrate(db, MIGRATIONS)
        generation = read_number(db, SQL["take_over"])
    if 0 < found < SCHEMA_VERSION:
        log.warning("the store's file was brought to a newer version", was=found, now=SCHEMA_VERSION)
    return generation


def _use_log(db: apsw.Connection, path: Path) -> None:
    if db.pragma("journal_mode", "wal") != "wal":
        raise StoreError(f"{path}: this file system does not support a write-ahead log; use a local disk")


def check_version(db: apsw.Connection, path: Path) -> None:
    """Raise StoreVersionError for a file that this program must not touch. An older one may be migrated."""
    version = db.pragma("user_version")
    application = db.pragma("application_id")
    filled = read_number(db, "SELECT count(*) FROM sqlite_schema")
    if filled and application != APPLICATION_ID:
        raise StoreVersionError(f"{path} is a database of another program")
    if version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{path} was written by a newer leadsman (file version {version}, this program knows up to "
            f"{SCHEMA_VERSION}); start that one, or restore a backup made before it"
        )


def read_number(db: apsw.Connection, sql: str) -> int:
    """Run a statement that returns one number."""
    (row,) = db.execute(sql).fetchall()
    return cast("int", row[0])


def begin(db: apsw.Connection, path: Path, patience_seconds: float) -> None:
    """Begin a transaction that has the write lock from its first statement.

    Another program that has it (a shell that was left open, a copy that locks the file) is waited for: nothing is
    written yet, so nothing is in doubt. Raises apsw.BusyError when it still has it after the patience.
    """
    since = time.monotonic()
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            waited = time.monotonic() - since
            if waited >= patience_seconds:
                raise
            log.warning(
                "another program holds the database for writing, so nothing can be committed: end that program",
                waited_seconds=round(waited, 1),
                file=str(path),
            )
        else:
            return


class immediately:  # noqa: N801  # reads as a word after `with`
    """A transaction that has the write lock from its first statement."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._db.execute("COMMIT")
        elif self._db.in_transaction:  # a full disk has rolled back by itself
            self._db.execute("ROLLBACK")
