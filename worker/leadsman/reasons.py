"""The one list of reasons why work waits or a fleet does not move.

The same words appear in the HTTP API, in a pool's status, in events and in metric labels, so that a person who
reads one of them can search for it in all the others.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why tasks wait, or why a pool has the size it has."""

    NO_POOL_SERVES = "NoPoolServes"
    POOL_PAUSED = "PoolPaused"
    OBSERVING = "Observing"
    AT_MAX_REPLICAS = "AtMaxReplicas"
    AT_MIN_REPLICAS = "AtMinReplicas"
    WORKERS_STARTING = "WorkersStarting"
    WORKERS_FAILING = "WorkersFailing"
    UNSCHEDULABLE = "Unschedulable"
    WORKERS_IDLE_WHILE_TASKS_WAIT = "WorkersIdleWhileTasksWait"
    QUOTA_EXCEEDED = "QuotaExceeded"
    CAPABILITY_NOT_SERVED = "CapabilityNotServed"
    UNKNOWN_CAPABILITY = "UnknownCapability"
    TEMPLATE_REFUSED = "TemplateRefused"
    CAPABILITY_PAUSED = "CapabilityPaused"
    TENANT_CAP = "TenantCap"
    INTERACTIVE_RESERVE = "InteractiveReserve"
    IN_FLIGHT_CEILING = "InFlightCeiling"
    RATE_LIMIT = "RateLimit"
    BUDGET = "Budget"
    ESTIMATE_ABOVE_BUDGET = "EstimateAboveBudget"
    BACKOFF = "Backoff"
    DELAYED = "Delayed"
    SIGNAL_LOST = "SignalLost"
    CONFLICT = "Conflict"
    SCALE_OUT_STEP = "ScaleOutStep"
    SCALE_IN_STEP = "ScaleInStep"
    SCALE_IN_WINDOW = "ScaleInWindow"
    WORKERS_BUSY = "WorkersBusy"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    STABLE = "Stable"
    DEPTH_ABOVE_TARGET = "DepthAboveTarget"
    AGE_ABOVE_TARGET = "AgeAboveTarget"
    HEADROOM = "Headroom"
    HIGH_WATER_MARK = "HighWaterMark"
    WORKERS_NOT_NEEDED = "WorkersNotNeeded"
    AS_EXPECTED = "AsExpected"
    INVALID_SPEC = "InvalidSpec"
    FOREIGN_DEPLOYMENT = "ForeignDeployment"
    DEPLOYMENT_NOT_FOUND = "DeploymentNotFound"
    PODS_NOT_LABELLED = "PodsNotLabelled"
    APPLY_FAILED = "ApplyFailed"
    RULES_REFUSED = "RulesRefused"
