"""File locks: the kernel drops them with their holder, so a killed run never leaves one behind."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .progress import say


class FileLock:
    """An exclusive lock on a file, held until ``release`` or the end of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, *, wait: bool) -> bool:
        """Take the lock; without ``wait`` return False when somebody else holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def locked(path: Path, *, waiting_for: str) -> Iterator[None]:
    """Hold the lock at ``path``; say what is waited for when another run has it."""
    lock = FileLock(path)
    if not lock.acquire(wait=False):
        say(f"waiting for another run: {waiting_for}")
        lock.acquire(wait=True)
    try:
        yield
    finally:
        lock.release()
