"""One process per data folder: a lock that the operating system lets go of when the process dies."""

import contextlib
import fcntl
import os
import socket
from pathlib import Path

from leadsman_broker.store.errors import StoreLockedError


class FolderLock:
    """Held from construction to `release`. Guards against a second process on the same machine only.

    What it cannot see, a process on another machine, is stopped by the generation in the file.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises StoreLockedError, naming the holder, when another process has it."""
        self._file = (folder / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise StoreLockedError(f"{folder} is in use by {holder}; stop it, or use another folder") from None
        with contextlib.suppress(OSError):  # on a full disk the lock holds, only its holder stays unnamed
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def release(self) -> None:
        """Let the next one in."""
        self._file.close()
