"""The five conditions of a pool, from what one look found. Pure: the times are put in where they are written."""

from collections.abc import Mapping
from dataclasses import dataclass

from leadsman.reasons import Reason
from leadsman_operator.api import ConditionStatus, ConditionType
from leadsman_operator.reconcile.problem import Problem
from leadsman_operator.scaling.census import capabilities_not_served
from leadsman_operator.scaling.model import Decision, PoolObservation, PoolSpec, ScalingMode

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at a pool found out."""

    spec: PoolSpec
    observation: PoolObservation
    decision: Decision
    problem: Problem | None = None
    refused: str | None = None
    """Why the API server refuses the template."""
    apply_failed: str | None = None
    pods_labelled: bool = True
    deployment: str = ""
    """Its name."""
    other_managers: tuple[str, ...] = ()
    took_scale: bool = True
    took_back: bool = False
    """The replicas were taken back once already and will not be again."""
    replica_failure: str | None = None
    failing: Mapping[str, int] | None = None
    """Why pods cannot start, and how many."""
    unschedulable: tuple[int, str] = (0, "")
    """How many pods no node takes, and the scheduler's words."""
    scale_in_waits_for: str = ""
    """Why the fleet does not shrink yet although it should."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition without its times."""

    type: ConditionType
    status: ConditionStatus
    reason: Reason
    message: str

    @property
    def word(self) -> str:
        """Status and reason: what is news when it changes."""
        return said(self.status, self.reason)


def said(status: object, reason: object) -> str:
    """Return the word of a condition with this status and reason."""
    return f"{status} {reason}"


def conditions(found: Found) -> tuple[Verdict, ...]:
    """Return every condition, in the order in which they are shown."""
    return (ready(found), signal_healthy(found), scaling_active(found), scaling_limited(found), conflict(found))


def invalid(message: str) -> tuple[Verdict, ...]:
    """Return the conditions of a pool whose spec cannot be read."""
    text = f"the spec cannot be read: {message}"
    return (
        Verdict(ConditionType.READY, FALSE, Reason.INVALID_SPEC, text),
        Verdict(ConditionType.SCALING_ACTIVE, FALSE, Reason.INVALID_SPEC, text),
    )


def ready(found: Found) -> Verdict:
    """Say whether spec is accepted, Deployment applied and signal known; also at 0 replicas."""
    reason, message = _unready(found)
    if reason is not None:
        return Verdict(ConditionType.READY, FALSE, reason, message)
    return Verdict(ConditionType.READY, TRUE, Reason.AS_EXPECTED, "spec accepted, Deployment applied, signal known")


def signal_healthy(found: Found) -> Verdict:
    """Say whether the broker's numbers are fresh and make sense."""
    signal = found.observation.signal
    if found.decision.signal_healthy:
        return Verdict(ConditionType.SIGNAL_HEALTHY, TRUE, Reason.AS_EXPECTED, "the broker's numbers are fresh")
    if signal is None:
        text = "nothing has been heard of the broker yet"
    elif found.observation.unreported_capabilities:
        text = f"the broker does not report {', '.join(found.observation.unreported_capabilities)}"
    else:
        text = "the broker has been silent, or its numbers make no sense; the fleet is held as it is"
    return Verdict(ConditionType.SIGNAL_HEALTHY, FALSE, Reason.SIGNAL_LOST, text)


def scaling_active(found: Found) -> Verdict:
    """Say whether decisions are carried out."""
    kind = ConditionType.SCALING_ACTIVE
    if found.spec.mode is ScalingMode.PAUSED:
        return Verdict(kind, FALSE, Reason.POOL_PAUSED, "scaling.mode is Paused: nothing is done")
    if found.spec.mode is ScalingMode.OBSERVE:
        return Verdict(
            kind, FALSE, Reason.OBSERVING, "scaling.mode is Observe: decisions are shown, not carried out"
        )
    if found.problem is not None:
        return Verdict(kind, FALSE, found.problem.reason, found.problem.message)
    if found.observation.conflict:
        return Verdict(kind, FALSE, Reason.CONFLICT, _conflict_text(found))
    if not found.decision.signal_healthy:
        return Verdict(kind, FALSE, Reason.SIGNAL_LOST, signal_healthy(found).message)
    waits = f"; scale-in waits: {found.scale_in_waits_for}" if found.scale_in_waits_for else ""
    return Verdict(kind, TRUE, Reason.AS_EXPECTED, f"decisions are carried out{waits}")


def scaling_limited(found: Found) -> Verdict:
    """Say whether a bound keeps the fleet from the size the work asks for, or its pods cannot run."""
    kind = ConditionType.SCALING_LIMITED
    if found.replica_failure is not None:
        reason = Reason.QUOTA_EXCEEDED if found.observation.quota_exceeded else Reason.WORKERS_FAILING
        return Verdict(kind, TRUE, reason, found.replica_failure)
    if found.failing:
        causes = ", ".join(f"{count} {reason}" for reason, count in sorted(found.failing.items()))
        total = len([pod for pod in found.observation.pods if not pod.terminating])
        return Verdict(kind, TRUE, Reason.WORKERS_FAILING, f"of {total} pods cannot start: {causes}")
    names = ", ".join(capabilities_not_served(found.spec, found.observation))
    # In a rollout the handlers of a new template are on their way.
    if names and not found.observation.rollout_in_progress:
        text = f"no worker of the pool takes {names}: its image has no handler for it"
        return Verdict(kind, TRUE, Reason.CAPABILITY_NOT_SERVED, text)
    # Waiting before it shrinks is what a fleet is meant to do, not a limit.
    limits = [clamp for clamp in found.decision.clamps if clamp.reason is not Reason.SCALE_IN_WINDOW]
    count, words = found.unschedulable
    # That a fleet is kept at its minimum is no news beside that.
    if count and all(clamp.reason is Reason.AT_MIN_REPLICAS for clamp in limits):
        return Verdict(kind, TRUE, Reason.UNSCHEDULABLE, f"no node takes {count} pods: {words}")
    if limits:
        last = limits[-1]
        note = f" ({last.note})" if last.note else ""
        return Verdict(kind, TRUE, last.reason, f"the work asks for {last.before}, {last.reason.value}{note}")
    return Verdict(kind, FALSE, Reason.AS_EXPECTED, "no bound is in the way")


def conflict(found: Found) -> Verdict:
    """Say whether somebody else writes the replicas."""
    kind = ConditionType.CONFLICT
    if found.observation.conflict or (found.problem is not None and found.problem.reason is Reason.CONFLICT):
        return Verdict(kind, TRUE, Reason.CONFLICT, _conflict_text(found))
    if not found.took_scale:
        text = "the replicas have not been written yet; the first write takes them over"
        return Verdict(kind, UNKNOWN, Reason.STABLE, text)
    return Verdict(kind, FALSE, Reason.AS_EXPECTED, "nobody else writes the replicas")


def _unready(found: Found) -> tuple[Reason | None, str]:
    if found.refused is not None:
        return Reason.TEMPLATE_REFUSED, f"the API server refuses the Deployment: {found.refused}"
    if found.problem is not None:
        return found.problem.reason, found.problem.message
    if found.apply_failed is not None:
        return Reason.APPLY_FAILED, f"the Deployment could not be applied, trying again: {found.apply_failed}"
    unknown = found.observation.unknown_capabilities
    if unknown:
        names = ", ".join(unknown)
        return Reason.UNKNOWN_CAPABILITY, f"there is no Capability {names} in this namespace; create it first"
    if not found.pods_labelled:
        text = (
            f"pods of Deployment {found.deployment} cannot be found: add the label"
            f" leadsman.dev/pool: {found.spec.name} to its pod template; until then no worker is taken away"
        )
        return Reason.PODS_NOT_LABELLED, text
    if found.observation.signal is None:
        return Reason.SIGNAL_LOST, "nothing has been heard of the broker yet"
    unreported = found.observation.unreported_capabilities
    if unreported:
        return Reason.SIGNAL_LOST, f"the broker does not know {', '.join(unreported)} yet; its tasks are refused"
    return None, ""


def _conflict_text(found: Found) -> str:
    if found.problem is not None:
        return found.problem.message
    names = ", ".join(found.other_managers) or "another writer"
    ending = (
        "they were taken back once already; nothing more is done until the pool's spec changes"
        if found.took_back
        else "they are taken back when it has been quiet for a while"
    )
    return f"replicas of Deployment {found.deployment} are written by {names}; {ending}"
