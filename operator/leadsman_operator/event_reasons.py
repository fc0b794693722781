"""What events say happened; whoever writes them, to an API server or to a terminal, uses these words."""

from enum import StrEnum


class EventReason(StrEnum):
    """What happened, where the word is not already one of `leadsman.reasons`."""

    SCALED_OUT = "ScaledOut"
    SCALED_IN = "ScaledIn"
    SCALE_IN_ABANDONED = "ScaleInAbandoned"
    CORDONED = "Cordoned"
    WRONG_VICTIM = "WrongVictim"
    BUSY_EVICTION = "BusyEviction"
    DEPLOYMENT_CREATED = "DeploymentCreated"
    DEPLOYMENT_UPDATED = "DeploymentUpdated"
    BOUNDS_CHANGED = "BoundsChanged"
    TOOK_BACK = "TookBack"
    READY = "Ready"
    SIGNAL_HEALTHY = "SignalHealthy"
    SCALING_ACTIVE = "ScalingActive"
    NOT_LIMITED = "NotLimited"
    CONFLICT_ENDED = "ConflictEnded"
