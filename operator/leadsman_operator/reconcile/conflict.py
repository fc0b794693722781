"""Somebody else writes the replicas: hold, take the field back once after five quiet minutes, then stop.

A person who scales by hand gets five minutes and is then corrected; a program that writes again wins until the
pool's spec is changed, because two controllers that overwrite each other are worse than either alone.
"""

from dataclasses import dataclass

QUIET_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class OtherWriter:
    """Another manager of the replicas, and how long it has been quiet."""

    managers: tuple[str, ...]
    replicas: int
    """What it last wrote."""
    quiet_since: float
    generation: int
    """Of the pool's spec when it was noticed."""


@dataclass(slots=True)
class Contention:
    """Where one pool stands with other writers."""

    other: OtherWriter | None = None
    took_back_at: int | None = None
    """Generation of the spec at which the field was taken back; not again before the spec changes."""

    @property
    def active(self) -> bool:
        """Whether we hold because of another writer."""
        return self.other is not None

    def notice(self, managers: list[str], replicas: int, generation: int, now: float) -> bool:
        """Note that another manager owns the field; True when that is news."""
        known = self.other
        names = tuple(sorted(set(managers)))
        if known is not None and (known.managers, known.replicas) == (names, replicas):
            return False
        self.other = OtherWriter(names, replicas, now, generation)
        return known is None or known.managers != names

    def clear(self) -> bool:
        """Forget the other writer, the field being ours alone; True when that is news."""
        was, self.other = self.other, None
        return was is not None

    def renew(self, generation: int) -> bool:
        """After a change of the spec, forget what was learnt of other writers; True when there was one."""
        if self.took_back_at is not None and self.took_back_at != generation:
            self.took_back_at = None
        if self.other is not None and self.other.generation != generation:
            self.other = None
            return True
        return False

    def may_take_back(self, generation: int, now: float) -> bool:
        """Whether the quiet time is over and this would be the first time."""
        if self.other is None or self.took_back_at == generation:
            return False
        return now - self.other.quiet_since >= QUIET_SECONDS

    def take_back_in(self, generation: int, now: float) -> float | None:
        """In how many seconds the field may be taken back; None when it will not."""
        if self.other is None or self.took_back_at == generation:
            return None
        return max(0.0, self.other.quiet_since + QUIET_SECONDS - now)

    def took_back(self, generation: int) -> None:
        """We took the field by force."""
        self.other = None
        self.took_back_at = generation
