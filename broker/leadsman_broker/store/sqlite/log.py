"""The write-ahead log: kept short, and reported when another program does not let it be.

SQLite copies the log back into the file as commits come, and begins it anew when no reader needs it. A program that
keeps a transaction open for reading (a backup that hangs, a shell that was left open) stops the second, and the log
grows by all that is written. It cannot be made to stop, so that it is said; and once it has gone, the log is
emptied also while nothing is committed: a disk that the log has filled would else stay full, and refuse the very
work whose commit would empty it.
"""

import time
from pathlib import Path

import apsw
import structlog

from leadsman_broker.store.sqlite.opening import BUSY_MILLISECONDS, LOG_LIMIT_BYTES

LONG_BYTES = 64 * 2**20
"""From here on a log that cannot be emptied is worth a warning."""

WARN_EVERY_SECONDS = 60.0

log = structlog.get_logger()


class WriteAheadLog:
    """The log of one file, looked at by the thread that commits."""

    def __init__(self, db: apsw.Connection, path: Path) -> None:
        self._db = db
        self._file = path.with_name(path.name + "-wal")
        self._held_since: float | None = None
        self._warned_at: float | None = None
        self.size_bytes = 0
        """As of the last look."""

    @property
    def held_seconds(self) -> float:
        """Return for how long a reader has kept the log from being emptied; 0 when none does."""
        return 0.0 if self._held_since is None else time.monotonic() - self._held_since

    def tend(self) -> None:
        """Empty the log if it is long and nobody reads it; wait for nobody. To be called every few seconds."""
        self.size_bytes = self._size()
        if self.size_bytes <= LOG_LIMIT_BYTES:
            self._free()
            return
        try:
            emptied = self._empty()
        except apsw.Error as error:
            # What is committed is in the log and stays there; a commit that meets the same disk ends the process.
            log.warning("the store's log cannot be copied back", error=str(error), log_bytes=self.size_bytes)
            return
        self.size_bytes = self._size()
        if emptied:
            self._free()
        else:
            self._held()

    def _empty(self) -> bool:
        """Copy back what can be, and cut the file if that was all of it; say whether it was cut."""
        _, frames, copied = self._checkpoint("PASSIVE")
        if copied < frames:
            return False
        self._db.set_busy_timeout(0)  # a reader that is there now would hold up every commit
        try:
            busy, _, _ = self._checkpoint("TRUNCATE")
        finally:
            self._db.set_busy_timeout(BUSY_MILLISECONDS)
        return not busy

    def _checkpoint(self, mode: str) -> tuple[int, int, int]:
        ((busy, frames, copied),) = self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        return int(str(busy)), int(str(frames)), int(str(copied))

    def _held(self) -> None:
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        if self.size_bytes < LONG_BYTES:
            return
        if self._warned_at is None or now - self._warned_at >= WARN_EVERY_SECONDS:
            self._warned_at = now
            log.warning(
                "another program holds the database open for reading, so its log grows: end that program",
                log_bytes=self.size_bytes,
                held_seconds=round(self.held_seconds, 1),
                file=str(self._file),
            )

    def _free(self) -> None:
        if self._warned_at is not None:
            log.info("the store's log is short again", log_bytes=self.size_bytes)
        self._held_since = self._warned_at = None

    def _size(self) -> int:
        try:
            return self._file.stat().st_size
        except FileNotFoundError:
            return 0
