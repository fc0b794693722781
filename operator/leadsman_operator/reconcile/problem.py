"""What keeps a pool from having a fleet to size."""

from dataclasses import dataclass

from leadsman.reasons import Reason


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pool has no Deployment that it can scale."""

    reason: Reason
    message: str
    transient: bool = False
    """It will pass by itself; nobody has to do anything."""
