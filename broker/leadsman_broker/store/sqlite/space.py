"""How much more work the disk can take."""

from pathlib import Path

from leadsman_broker.store.interface import Space
from leadsman_broker.store.sqlite.failures import free_bytes

RESERVE_BYTES = 64 * 2**20
"""Kept for settlements: below it new work is refused."""

LOG_SHARE = 4
"""A quarter of the reserve must be free on the disk itself, for the log; the rest may be free pages of the file."""

RESUME = 1.5
"""New work is taken again with this much of the reserve, so that it does not flip with every task."""


class SpaceGauge:
    """Free space for growth: of the disk, and of pages in the file that ended tasks have left."""

    def __init__(self, folder: Path, reserve_bytes: int) -> None:
        self._folder = folder
        self._reserve = reserve_bytes
        self._low = False
        self.free_in_file = 0
        """Bytes of unused pages; kept up to date by the writer."""

    def read(self) -> Space:
        """Return the room there is now."""
        free_on_disk = free_bytes(self._folder)
        free = free_on_disk + self.free_in_file
        need = self._reserve * RESUME if self._low else self._reserve
        self._low = free < need or free_on_disk < need / LOG_SHARE
        return Space(free, low=self._low)
