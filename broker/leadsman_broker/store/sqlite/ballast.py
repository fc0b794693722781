"""Space that can be thrown overboard: a start on a full disk needs a little to write its first page."""

import os
from pathlib import Path

from leadsman_broker.store.sqlite.failures import free_bytes


class Ballast:
    """A file of zeros beside the database, there while there is room for it.

    Without it a broker whose disk is full to the last byte could not even start, and then no worker could settle
    what it holds, which is what frees space.
    """

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._path = folder / "ballast"
        self._size = size_bytes

    def trim(self, *, low: bool) -> None:
        """Take it in while there is room, and drop it when settlements may need its room in this process's life.

        Done at a start only: what a failing process let go of, another program could have by the next start.
        """
        if free_bytes(self._path.parent) < self._size:
            self.drop()
        elif not low and not self._path.exists():
            self._take_in()

    def drop(self) -> bool:
        """Give the space back; say whether there was any to give."""
        if not self._path.exists():
            return False
        self._path.unlink()
        return True

    def _take_in(self) -> None:
        try:
            with self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self._size)
        except OSError:
            self._path.unlink(missing_ok=True)
