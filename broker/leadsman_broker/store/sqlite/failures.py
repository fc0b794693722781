"""What an error of SQLite means to the broker."""

import os
from pathlib import Path

import apsw

from leadsman_broker.store.errors import StoreError, StoreFullError

NOTHING_LEFT_BYTES = 256 * 2**10
"""With less than this on the disk, an I/O error is a full disk that SQLite met outside a plain write."""


def free_bytes(folder: Path) -> int:
    """Return what a process without privileges may still write to the folder's disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def store_error(error: apsw.Error, folder: Path) -> StoreError:
    """Return the store's error for one of SQLite."""
    if isinstance(error, apsw.BusyError):
        return StoreError(f"another program holds the database for writing in {folder}; end that program")
    full = isinstance(error, apsw.FullError)
    if isinstance(error, apsw.IOError | apsw.CantOpenError):
        full = free_bytes(folder) < NOTHING_LEFT_BYTES
    if full:
        return StoreFullError(f"the disk of {folder} is full; nothing of this step was written")
    return StoreError(f"the store in {folder} failed: {error}")
