"""Copies of the file: made beside a broker that goes on working, and put back in its place."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from leadsman_broker.store.errors import BackupError, StoreError, StoreVersionError
from leadsman_broker.store.sqlite.failures import free_bytes, store_error
from leadsman_broker.store.sqlite.lock import FolderLock
from leadsman_broker.store.sqlite.migrations import MIGRATIONS, migrate
from leadsman_broker.store.sqlite.opening import FILE_NAME, check_version, immediately, open_reader, read_number
from leadsman_broker.store.sqlite.space import RESERVE_BYTES
from leadsman_broker.store.sqlite.statements import SQL

Progress = Callable[[int, int], None]
"""Told how many bytes are copied, and how many there are."""

PAGES_PER_STEP = 1_024
"""4 MiB between two reports of progress."""


class Copy(NamedTuple):
    """What a copy holds. `live`: tasks that are not ended; `leased`: those of them that workers held."""

    file: Path
    size_bytes: int
    version: int
    generation: int
    live: int
    leased: int


def back_up(folder: Path, target: Path, progress: Progress) -> Copy:
    """Copy the store in `folder` to the file `target`, as it is at one moment; a broker may be at work in it.

    The copy appears under its name when it is complete, checked and on disk. While it is made, the log of the store
    cannot be emptied, so it grows by what the broker writes meanwhile.

    Raises BackupError when it cannot be done, StoreVersionError for a file that is none of ours, StoreError else.
    """
    source = folder / FILE_NAME
    if not source.is_file():
        raise BackupError(f"there is no store in {folder}: no {FILE_NAME}")
    if target.exists():
        raise BackupError(f"{target} is there already; remove it, or choose another name")
    if not target.parent.is_dir():
        raise BackupError(f"there is no folder {target.parent}")
    with _errors(target.parent), contextlib.closing(open_reader(source)) as db:
        check_version(db, source)
        db.execute("BEGIN")  # one moment for all of it, whatever is committed while it is copied
        size = _size(db)
        _require_room(folder, target.parent, size)
        partial = target.with_name(f".{target.name}.partial")
        with _removed_on_failure(partial):
            copy = _copy(db, partial, progress)
            partial.replace(target)
            _sync(target.parent)
        return copy._replace(file=target)


def restore(backup: Path, folder: Path, progress: Progress, *, replace: bool) -> tuple[Copy, Path | None]:
    """Put a backup in place of the store in `folder`; return it, and where the store that was there is now.

    The file gets a generation above that of both, so that no process of before can write, and is brought to this
    program's version. The next start makes its leases ready again. The old store is put aside, not removed, and is
    in place until the very moment at which the backup is.

    Raises BackupError when it cannot be done, StoreLockedError while a broker runs on the folder, StoreVersionError
    for a file of a newer program.
    """
    if not backup.is_file():
        raise BackupError(f"there is no file {backup}")
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / FILE_NAME
    lock = FolderLock(folder)
    try:
        if current.exists() and not replace:
            raise BackupError(f"there is a store in {folder}; with --replace it is put aside for the backup")
        fresh = folder / f"{FILE_NAME}.restoring"
        with _errors(folder), _removed_on_failure(fresh):
            fresh.unlink(missing_ok=True)
            with contextlib.closing(_open_backup(backup)) as db:
                check_version(db, backup)
                _require_room(None, folder, _size(db))
                copy = _copy(db, fresh, progress)
            generation = _mark(fresh, _retire(current))
            aside = _put_aside(current)
            fresh.replace(current)
            _sync(folder)
        return copy._replace(file=current, generation=generation), aside
    finally:
        lock.release()


def _copy(db: apsw.Connection, target: Path, progress: Progress) -> Copy:
    """Copy all pages, make the copy one plain file, check it, and say what is in it."""
    target.unlink(missing_ok=True)
    page_size = int(db.pragma("page_size"))
    with contextlib.closing(apsw.Connection(str(target))) as made:
        with made.backup("main", db, "main") as copying:
            while not copying.done:
                copying.step(PAGES_PER_STEP)
                done = copying.page_count - copying.remaining
                progress(done * page_size, copying.page_count * page_size)
        made.pragma("journal_mode", "delete")
        wrong = [str(row[0]) for row in made.execute("PRAGMA quick_check(1)") if row[0] != "ok"]
        if wrong:
            raise BackupError(f"the copy is damaged, and so is what it was made from: {wrong[0]}")
        generation, live, leased = (
            read_number(made, SQL[name]) for name in ("read_generation", "count_live", "count_leased")
        )
        version = int(made.pragma("user_version"))
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return Copy(target, target.stat().st_size, version, generation, live, leased)


def _open_backup(backup: Path) -> apsw.Connection:
    db = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        empty = read_number(db, "SELECT count(*) FROM sqlite_schema") == 0
    except apsw.NotADBError:
        db.close()
        raise StoreVersionError(f"{backup} is not a database") from None
    except BaseException:
        db.close()
        raise
    if empty:
        db.close()
        raise BackupError(f"{backup} is empty")
    return db


def _mark(fresh: Path, generation: int) -> int:
    """Bring a restored file up to date, above a generation, and leave word for the next start."""
    with contextlib.closing(apsw.Connection(str(fresh))) as db:
        with immediately(db):
            migrate(db, MIGRATIONS)
            db.execute(SQL["mark_restored"], (generation,))
        return read_number(db, SQL["read_generation"])


def _retire(current: Path) -> int:
    """Make the commits of any process that has the old file open fail; return its generation.

    One that cannot be read, which may be why there is a restore, retires nobody: 0.
    """
    if not current.exists():
        return 0
    with contextlib.suppress(apsw.Error), contextlib.closing(apsw.Connection(str(current))) as db:
        check_version(db, current)
        with immediately(db):
            return read_number(db, SQL["take_over"])
    return 0


def _put_aside(current: Path) -> Path | None:
    """Give the old file a second name, and take away what belongs to it and would be read into another file."""
    if not current.exists():
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = current.with_name(f"{current.name}.replaced-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = current.with_name(f"{current.name}.replaced-{stamp}-{number}")
    os.link(current, aside)
    log = current.with_name(current.name + "-wal")
    if log.exists():  # of a file that could not be closed in good order
        log.replace(aside.with_name(aside.name + "-wal"))
    current.with_name(current.name + "-shm").unlink(missing_ok=True)
    return aside


def _require_room(source: Path | None, target: Path, size: int) -> None:
    """Refuse what does not fit, or what would take the disk of a running broker below what it needs itself."""
    shared = source is not None and source.stat().st_dev == target.stat().st_dev
    need = size + (RESERVE_BYTES if shared else 0)
    free = free_bytes(target)
    if free < need:
        reason = ", and the broker on the same disk needs its reserve" if shared else ""
        raise BackupError(
            f"{target} has {free >> 20} MiB free, and the copy takes {size >> 20} MiB{reason}: choose another disk"
        )


def _size(db: apsw.Connection) -> int:
    return int(db.pragma("page_count")) * int(db.pragma("page_size"))


def _sync(folder: Path) -> None:
    """Make a rename durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for leftover in (path, path.with_name(path.name + "-journal"), path.with_name(path.name + "-wal")):
            leftover.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _errors(folder: Path) -> Iterator[None]:
    """Say in our words what SQLite or the system says."""
    try:
        yield
    except apsw.Error as error:
        raise store_error(error, folder) from error
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}") from error
