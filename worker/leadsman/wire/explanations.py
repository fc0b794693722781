"""Why a task stands where it stands, in the words of `leadsman.reasons`."""

from leadsman.reasons import Reason
from leadsman.wire.base import Reply
from leadsman.wire.tasks import TaskView


class Ahead(Reply):
    """Ready tasks that go before this one if nothing changes, by cause. What is blocked itself is not ahead."""

    higher_priority: int = 0
    same_tenant: int = 0
    """Older ones of its own tenant and priority."""
    other_tenants: int = 0
    """Of its priority, whose tenants' turn comes first: they have less in flight for their weight."""


class TaskExplanation(Reply):
    """Where a task stands, the one thing that holds it back, and what would change that."""

    task: TaskView
    """With its history."""
    summary: str
    """One sentence for a person."""
    reason: Reason | None = None
    """What holds it back; none when it is leased or has ended."""
    setting: str | None = None
    """The field of the Capability or the WorkerPool that would change it; none when none would."""
    ahead: Ahead | None = None
    """Only of a ready task."""
    due_in_seconds: float | None = None
    """Until a delayed task is ready."""
    tenant_in_flight: int | None = None
    tenant_cap: int | None = None
    """How many its tenant may have in flight; none: no cap."""
    queue_in_flight: int | None = None
    free_slots: int | None = None
    """Of the workers that serve the queue and may be given work; they may serve other queues too."""
