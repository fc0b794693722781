"""Somebody else writes the replicas: hold, take the field back once after a quiet time, then stop.

A person who scales by hand gets five minutes and is then corrected; a program that writes again wins until the
pool's spec is changed, because two controllers that overwrite each other are worse than either alone.
"""

from dataclasses import dataclass


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
    """Where one pool stands with other writers. Times are the caller's monotonic clock, in seconds."""

    quiet_seconds: float = 300.0
    """How long another writer must be quiet before the field is taken back."""
    other: OtherWriter | None = None
    taking_back: bool = False
    """The quiet time is over: the pool is sized again, and its next write takes the field by force."""
    took_back_at: int | None = None
    """Generation of the spec at which the field was taken back; not again before the spec changes."""

    @property
    def active(self) -> bool:
        """Whether we hold because of another writer."""
        return self.other is not None and not self.taking_back

    def notice(self, managers: list[str], replicas: int, generation: int, now: float) -> None:
        """Note that other managers own the field, which has this value."""
        known = self.other
        names = tuple(sorted(set(managers)))
        if known is None or (known.managers, known.replicas) != (names, replicas):
            self.other = OtherWriter(names, replicas, now, generation)
            self.taking_back = False
        elif self.took_back_at != generation and now - known.quiet_since >= self.quiet_seconds:
            self.taking_back = True

    def clear(self) -> None:
        """Forget the other writer, the field being ours alone."""
        self.other, self.taking_back = None, False

    def renew(self, generation: int) -> None:
        """After a change of the spec, forget what was learnt of other writers: it is to be tried again."""
        if self.took_back_at is not None and self.took_back_at != generation:
            self.took_back_at = None
        if self.other is not None and self.other.generation != generation:
            self.clear()

    def take_back_in(self, generation: int, now: float) -> float | None:
        """In how many seconds the field may be taken back; None when there is nothing to wait for."""
        if self.other is None or self.taking_back or self.took_back_at == generation:
            return None
        return max(0.0, self.other.quiet_since + self.quiet_seconds - now)

    def written(self, generation: int) -> tuple[str, ...]:
        """Note that our write came through; return from whom it took the field, nobody as a rule."""
        managers = self.other.managers if self.other is not None else ()
        if managers:
            self.took_back_at = generation
        self.clear()
        return managers
