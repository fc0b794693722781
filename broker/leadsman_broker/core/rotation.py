"""Who may be picked from: the lanes of unblocked tenants, by priority, and in each priority in turn."""

from leadsman_broker.core.lanes import Lane, Tasks
from leadsman_broker.core.ranking import Key, Ranking

PRIORITIES = 10


class Rotation:
    """The lanes of one priority: by who has least in flight for its weight, and by who has the oldest task."""

    __slots__ = ("by_load", "by_seq")

    def __init__(self, tasks: Tasks) -> None:
        def seq_of_head(lane: Lane) -> Key:
            head = lane.head(tasks)
            return (head.seq if head is not None else -1,)

        self.by_load = Ranking(_load)
        self.by_seq = Ranking(seq_of_head)


class Shelf:
    """Rotations of all priorities, for tasks of one kind. `mask` has a bit for every priority that has lanes."""

    __slots__ = ("_rotations", "_tasks", "mask")

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._rotations: list[Rotation | None] = [None] * PRIORITIES
        self.mask = 0

    def add(self, lane: Lane) -> None:
        """Let a lane take part."""
        rotation = self._rotations[lane.priority]
        if rotation is None:
            rotation = self._rotations[lane.priority] = Rotation(self._tasks)
        lane.shelf = self
        rotation.by_load.put(lane)
        rotation.by_seq.put(lane)
        self.mask |= 1 << lane.priority

    def remove(self, lane: Lane) -> None:
        """Let a lane take part no longer."""
        rotation = self._of(lane.priority)
        lane.shelf = None
        rotation.by_load.remove(lane)
        rotation.by_seq.remove(lane)
        if not rotation.by_load:
            self.mask &= ~(1 << lane.priority)

    def lighter(self, lane: Lane) -> None:
        """Hear that a lane's tenant has less in flight for its weight."""
        self._of(lane.priority).by_load.fell(lane)

    def came_back(self, lane: Lane) -> None:
        """Hear that a lane was given a task that may be older than its oldest."""
        self._of(lane.priority).by_seq.fell(lane)

    def next(self, priority: int) -> Lane:
        """Return the lane whose tenant has least in flight for its weight, ties to the least recently served."""
        return self._of(priority).by_load.first()

    def oldest(self, priority: int) -> Lane:
        """Return the lane with the lowest seq."""
        return self._of(priority).by_seq.first()

    def lanes(self) -> list[Lane]:
        """Return every lane that takes part."""
        return [lane for rotation in self._rotations if rotation is not None for lane in rotation.by_load.lanes()]

    def _of(self, priority: int) -> Rotation:
        rotation = self._rotations[priority]
        assert rotation is not None  # noqa: S101  # a lane that takes part made it
        return rotation


def _load(lane: Lane) -> Key:
    return lane.tenant.load, lane.tenant.served
