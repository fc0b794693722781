"""When what was held back could be leased again, as stored: its age counts from then, also after a restart."""

from typing import NamedTuple


class OpeningRow(NamedTuple):
    """When a queue, or a class of one of its tenants, could be leased again: the age of its tasks counts from then.

    Kept for the end of a pause and of a wait for a budget, which hold work back for hours.
    """

    namespace: str
    capability: str
    tenant: str | None
    """None: the queue."""
    interactive: bool
    """The class, of a tenant; false for the queue."""
    at: float
