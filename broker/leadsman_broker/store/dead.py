"""What can be asked of a dead-letter queue, and the sums over it."""

from typing import NamedTuple

from leadsman_broker.core.rows import Ending


class DeadQuery(NamedTuple):
    """Which dead tasks of a queue, in order of acceptance; None: whatever."""

    namespace: str
    capability: str
    limit: int = 1000
    after: int = 0
    """Only those with a seq above it."""
    error_type: str | None = None
    """As the worker reported it; "": dead without an error, as after lost leases."""
    reason: str | None = None
    name: str | None = None
    tenant: str | None = None
    run_id: str | None = None
    died_after: float | None = None
    """Broker wall clock; from then on."""
    died_before: float | None = None
    """Before then."""

    def matches(self, ending: Ending, name: str) -> bool:
        """Say whether a dead task of the queue fits, but for its place; `name` is its handler's."""
        live, died = ending.ended.live, ending.ended.ended_at
        return (
            self.error_type in {None, ending.error_type or ""}
            and self.reason in {None, ending.reason}
            and self.name in {None, name}
            and self.tenant in {None, live.tenant}
            and self.run_id in {None, live.run_id}
            and (self.died_after is None or died >= self.died_after)
            and (self.died_before is None or died < self.died_before)
        )


class DeadGroup(NamedTuple):
    """Dead tasks that ended for one reason with one type of error."""

    reason: str
    error_type: str
    """"": none was reported."""
    tasks: int
    first_died_at: float
    last_died_at: float
    sample_seq: int
    """The one accepted last."""
    sample_id: str
    sample_message: str | None


def merge_groups(groups: list[DeadGroup]) -> list[DeadGroup]:
    """Add up groups of the same reason and error, most frequent first."""
    found: dict[tuple[str, str], DeadGroup] = {}
    for group in groups:
        key = (group.reason, group.error_type)
        found[key] = _add(found[key], group) if key in found else group
    return sorted(found.values(), key=lambda one: (-one.tasks, one.reason, one.error_type))


def _add(one: DeadGroup, other: DeadGroup) -> DeadGroup:
    newest = max(one, other, key=lambda group: group.sample_seq)
    return newest._replace(
        tasks=one.tasks + other.tasks,
        first_died_at=min(one.first_died_at, other.first_died_at),
        last_died_at=max(one.last_died_at, other.last_died_at),
    )
