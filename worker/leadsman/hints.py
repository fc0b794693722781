"""What would change each reason: one line for the person who reads it. docs/troubleshooting.md says more."""

from collections.abc import Mapping

from leadsman.reasons import Reason

HINTS: Mapping[str, str] = {
    Reason.NO_POOL_SERVES: "add the capability to a pool's spec.capabilities, or make a pool of its name",
    Reason.POOL_PAUSED: "set spec.scaling.mode to Active",
    Reason.OBSERVING: "set spec.scaling.mode to Active when you trust what it shows",
    Reason.AT_MAX_REPLICAS: "raise spec.maxReplicas (or the max of the schedule that is named)",
    Reason.AT_MIN_REPLICAS: "lower spec.minReplicas (or the min of the schedule that is named)",
    Reason.WORKERS_STARTING: "wait; look at the pool's pods when it lasts",
    Reason.WORKERS_FAILING: "repair what keeps its pods from starting: kubectl describe pod",
    Reason.UNSCHEDULABLE: "add nodes, or ask for less: the ScalingLimited condition has the scheduler's words",
    Reason.WORKERS_IDLE_WHILE_TASKS_WAIT: "find out why free workers take nothing: their logs, `leadsman queues`",
    Reason.QUOTA_EXCEEDED: "raise the namespace's quota, or lower spec.maxReplicas",
    Reason.CAPABILITY_NOT_SERVED: "deploy an image that has the handler, or take the capability out of the pool",
    Reason.UNKNOWN_CAPABILITY: "kubectl apply the Capability",
    Reason.TEMPLATE_REFUSED: "correct the pod template; the Ready condition has the API server's words",
    "CapabilityPaused": "leadsman resume CAPABILITY",
    "TenantCap": "raise spec.fairness.tenantSharePercent of the Capability, or set overCap: UseIdle",
    "InteractiveReserve": "lower spec.fairness.interactiveReservePercent of the Capability, or raise maxReplicas",
    "InFlightCeiling": "raise spec.limits.maxInFlight of the Capability",
    "RateLimit": "raise spec.limits.leasesPerMinute of the Capability",
    "Budget": "raise spec.budget of the Capability, or wait for its next window",
    Reason.ESTIMATE_ABOVE_BUDGET: "raise spec.budget of the Capability, or cancel the tasks",
    Reason.BACKOFF: "mend the error that the tasks fail with: `leadsman dlq`, `leadsman tasks get ID`",
    Reason.DELAYED: "wait until the tasks fall due",
    Reason.SIGNAL_LOST: "bring the broker back: its pod, its log, its /readyz",
    Reason.CONFLICT: "take the other writer of the replicas off; the Conflict condition names it",
    Reason.SCALE_OUT_STEP: "raise spec.scaling.scaleOut.maxStep, or leave it out",
    Reason.SCALE_IN_STEP: "raise spec.scaling.scaleIn.maxStep, or leave it out",
    Reason.SCALE_IN_WINDOW: "wait, or shorten spec.scaling.scaleIn.idleSeconds",
    Reason.WORKERS_BUSY: "wait until workers have finished, or raise spec.drain.maxDraining",
    Reason.ROLLOUT_IN_PROGRESS: "wait for the rollout: kubectl rollout status deployment/NAME",
    Reason.STABLE: "more work, or less of it for longer than spec.scaling.scaleIn.idleSeconds",
    Reason.DEPTH_ABOVE_TARGET: "fewer waiting tasks, or a larger spec.scaling.targetTasksPerSlot",
    Reason.AGE_ABOVE_TARGET: "younger waiting tasks, or a larger spec.scaling.targetAgeSeconds",
    Reason.HEADROOM: "another spec.scaling.headroomSlots",
    Reason.HIGH_WATER_MARK: "fewer waiting tasks, or a larger spec.scaling.step.highWaterMark",
    Reason.WORKERS_NOT_NEEDED: "new work",
    Reason.AS_EXPECTED: "nothing to do",
    Reason.INVALID_SPEC: "correct the field that the Ready condition names",
    Reason.FOREIGN_DEPLOYMENT: "rename the pool, or refer to that Deployment with spec.deploymentRef",
    Reason.DEPLOYMENT_NOT_FOUND: "make the Deployment that spec.deploymentRef names",
    Reason.PODS_NOT_LABELLED: "add the label leadsman.dev/pool to the Deployment's pod template",
    Reason.APPLY_FAILED: "look at the operator's log and the API server; it is tried again",
    Reason.RULES_REFUSED: "correct the Capability; its Ready condition has the broker's words",
}


def hint(reason: str) -> str | None:
    """Return what would change this; None for a word of a newer version."""
    return HINTS.get(reason)
