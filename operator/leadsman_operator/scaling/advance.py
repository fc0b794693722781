"""The transitions of a scale-in. See `leadsman_operator.scaling.scale_in` for the states and what they ask for."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leadsman_operator.scaling.model import Action, PodName, PodSample, Readiness
from leadsman_operator.scaling.scale_in import (
    EVIDENCE_DEADLINE_SECONDS,
    FENCE_DEADLINE_SECONDS,
    LOWER_DEADLINE_SECONDS,
    MAX_RETRY_SECONDS,
    MISSING_SECONDS,
    RACE_RETRY_SECONDS,
    RETRY_SECONDS,
    SETTLE_SECONDS,
    UNANSWERED_SECONDS,
    VERIFY_DEADLINE_SECONDS,
    VICTIM_DELETION_COST,
    ClearCost,
    Evidence,
    Fence,
    FenceReplied,
    Fencing,
    Idle,
    Lowering,
    LowerScale,
    Operation,
    ReadScale,
    RecordWrongVictim,
    ReplicaSetSample,
    ScaleInAction,
    ScaleInEvent,
    ScaleInState,
    ScaleInView,
    ScaleOutcome,
    ScaleRead,
    ScaleReplied,
    SetDeletionCost,
    Unfence,
    Verifying,
)
from leadsman_operator.scaling.victims import victims

_MAX_DOUBLINGS = 16
"""Beyond this the longest wait is reached in any case, and the number stays small."""

Step = tuple[ScaleInState, tuple[ScaleInAction, ...]]


def advance(state: ScaleInState, view: ScaleInView, events: Iterable[ScaleInEvent], now: float) -> Step:
    """Take in the replies, then go on from what is seen. Call it on every change, reply and `next_deadline`."""
    asked: list[ScaleInAction] = []
    for event in events:
        match event:
            case FenceReplied():
                state, actions = _fence_replied(state, event, view, now)
            case ScaleReplied():
                state, actions = _scale_replied(state, event, now)
            case ScaleRead():
                state, actions = _scale_read(state, event), ()
        asked += actions
    state, actions = _go_on(state, view, now)
    return state, (*asked, *actions)


def next_deadline(state: ScaleInState, now: float) -> float | None:
    """Give the time at which `advance` must be called even if nothing happens; None: only news matters."""
    if isinstance(state, Idle):
        times = [state.not_before, *(state.unchanged_since + wait for wait in (SETTLE_SECONDS, MISSING_SECONDS))]
        times += [] if state.lifted_at is None else [state.lifted_at + RETRY_SECONDS]
        return min((time for time in times if time > now), default=None)
    if isinstance(state, Evidence):
        return min(state.deadline, state.asked_at + RETRY_SECONDS)
    if isinstance(state, Verifying) and state.raised_since is not None:
        due = state.raised_since + _raise_seconds(state)
        if due <= now and state.asked_at is not None:
            due = state.asked_at + RETRY_SECONDS
        return min(state.deadline, due)
    return state.deadline


def _go_on(state: ScaleInState, view: ScaleInView, now: float) -> Step:
    match state:
        case Idle():
            return _idle(state, view, now)
        case Fencing(operation=operation):
            if _pre_empted(view):
                return _lift(operation, now)
            late = now >= state.deadline
            return _lift(operation, now, failed="the broker did not answer") if late else (state, ())
        case Evidence():
            return _evidence(state, view, now)
        case Lowering():
            # Whether it has gone through will be seen.
            return (_verify(state, now), ()) if now >= state.deadline else (state, ())
        case Verifying():
            return _verifying(state, view, now)


def _idle(state: Idle, view: ScaleInView, now: float) -> Step:
    replicas, readiness = view.observation.replicas, _readiness(view)
    if (replicas, readiness) != (state.replicas, state.readiness):
        state = replace(state, replicas=replicas, readiness=readiness, unchanged_since=now)
    strays = _strays(view)
    if strays and _deletes(view):
        return replace(state, waits_for="pods of an earlier operation are still to go"), ()
    if strays:
        if state.lifted_at is not None and now - state.lifted_at < RETRY_SECONDS:
            return state, ()
        return replace(state, lifted_at=now), strays
    if view.decision.action is not Action.SCALE_IN:
        return Idle(replicas=replicas, readiness=readiness, unchanged_since=state.unchanged_since), ()
    if now < state.not_before:
        return state, ()
    return _start(state, view, now)


def _strays(view: ScaleInView) -> tuple[ScaleInAction, ...]:
    """Find fences and costs on the pool's pods while no operation is under way: left by a dead leader, or late."""
    by_operation: dict[str, list[str]] = {}
    for pod in _present(view):
        if pod.uid in view.fences:
            by_operation.setdefault(view.fences[pod.uid], []).append(pod.uid)
    marked = tuple(PodName(pod.uid, pod.name) for pod in _present(view) if _is_marked(pod))
    lifts: list[ScaleInAction] = [Unfence(operation, tuple(uids)) for operation, uids in by_operation.items()]
    return (*lifts, ClearCost(marked)) if marked else tuple(lifts)


def _start(state: Idle, view: ScaleInView, now: float) -> Step:
    present, observation, target = _present(view), view.observation, view.decision.replicas
    unchanged = now - state.unchanged_since
    if unchanged < SETTLE_SECONDS:
        return replace(state, waits_for="a pod has just come, gone or changed its readiness"), ()
    if len(present) < observation.replicas and unchanged < MISSING_SECONDS:
        return replace(state, waits_for=f"{observation.replicas - len(present)} pods are not there yet"), ()
    if target and not _settled(view, present):
        return replace(state, waits_for="the ReplicaSet's status does not agree with its pods yet"), ()
    operation = Operation(
        id=view.operation,
        epoch="" if observation.signal is None else observation.signal.epoch,
        from_replicas=observation.replicas,
        target=target,
        before=state.readiness,
        failures=state.failures,
    )
    leaving = len(present) - target
    if leaving <= 0:
        # A quota, for example: the pods that would be too many were never made, so nobody has to go.
        return _lower(operation, view, target, now)
    found = victims(observation, leaving, max_draining=view.max_draining, avoid=state.avoid)
    if not found.pods:
        return replace(state, waits_for=found.note), ()
    operation = replace(operation, victims=found.pods, guards=found.guards)
    uids = tuple(pod.uid for pod in (*found.pods, *found.guards))
    return Fencing(operation, now + FENCE_DEADLINE_SECONDS), (Fence(operation.id, uids),)


def _fence_replied(state: ScaleInState, event: FenceReplied, view: ScaleInView, now: float) -> Step:
    if isinstance(state, Verifying) and state.operation.id == event.operation:
        return state, ()  # a renewal
    if not isinstance(state, Fencing) or state.operation.id != event.operation:
        late = tuple(sorted(event.fenced))
        return state, (Unfence(event.operation, late),) if late else ()
    operation = state.operation
    chosen = tuple(pod for pod in operation.victims if pod.uid in event.fenced)
    exposed = any(pod.uid not in event.fenced for pod in operation.guards)
    operation = replace(operation, victims=chosen)
    if _pre_empted(view) or event.epoch != operation.epoch:
        return _lift(operation, now)
    everyone = operation.fenced >= {pod.uid for pod in _present(view)}
    if not chosen or exposed or (operation.target == 0 and not everyone):
        return _lift(operation, now, raced="the workers took tasks before they were fenced")
    if operation.target == 0:
        return _lower(operation, view, 0, now)
    return Evidence(operation, now + EVIDENCE_DEADLINE_SECONDS, now), (SetDeletionCost(chosen),)


def _evidence(state: Evidence, view: ScaleInView, now: float) -> Step:
    operation, present = state.operation, _present(view)
    if _pre_empted(view) or _epoch(view) != operation.epoch:
        return _lift(operation, now)
    fenced = operation.fenced
    if _others(operation, view) or view.observation.replicas != operation.from_replicas:
        return _lift(operation, now, raced="other pods of the pool changed meanwhile")
    still_ready = frozenset(pod.uid for pod in present if pod.uid in fenced and pod.ready)
    marked = {pod.uid for pod in present if _is_marked(pod)}
    unmarked = tuple(pod for pod in operation.victims if pod.uid not in marked)
    if not still_ready and not unmarked and _seen(operation, view.replica_set):
        leaving = min(len(operation.victims), len(present) - view.decision.replicas)
        return _lower(operation, view, len(present) - leaving, now)
    if now >= state.deadline:
        return _lift(operation, now, failed="the ReplicaSet did not show the fenced pods", avoid=still_ready)
    if unmarked and now - state.asked_at >= RETRY_SECONDS:
        return replace(state, asked_at=now), (SetDeletionCost(unmarked),)
    return state, ()


def _lower(operation: Operation, view: ScaleInView, to_replicas: int, now: float) -> Step:
    state = Lowering(operation, now + LOWER_DEADLINE_SECONDS, to_replicas)
    return state, (LowerScale(operation.id, operation.from_replicas, to_replicas, view.resource_version),)


def _scale_replied(state: ScaleInState, event: ScaleReplied, now: float) -> Step:
    if not isinstance(state, Lowering) or state.operation.id != event.operation:
        return state, ()
    if event.outcome is ScaleOutcome.LOWERED:
        return _verify(state, now), ()
    return _lift(state.operation, now, failed=f"the scale could not be lowered: {event.outcome.value}")


def _scale_read(state: ScaleInState, event: ScaleRead) -> ScaleInState:
    if not isinstance(state, Verifying) or state.operation.id != event.operation:
        return state
    if event.replicas <= state.to_replicas:
        return replace(state, seen_lowered=True, raised_since=None, confirmed=False)
    return replace(state, confirmed=True)


def _verify(state: Lowering, now: float) -> Verifying:
    leaving = max(0, len(state.operation.before) - state.to_replicas)
    return Verifying(state.operation, now + VERIFY_DEADLINE_SECONDS, state.to_replicas, leaving)


def _verifying(state: Verifying, view: ScaleInView, now: float) -> Step:
    operation = state.operation
    staying = {pod.uid for pod in _present(view)}
    gone = operation.before.keys() - staying
    wrong = _wrong_victims(operation, view, gone - operation.fenced - state.recorded)
    raised_since = _raised_since(state, view, now)
    state = replace(
        state,
        seen_lowered=state.seen_lowered or view.observation.replicas <= state.to_replicas,
        raised_since=raised_since,
        confirmed=state.confirmed and raised_since is not None,
        recorded=state.recorded | {each.pod.uid for each in wrong},
    )
    # Demand came back before anybody had to go, and what is seen of it is old enough to be all there is.
    called_off = state.raised_since is not None and now - state.raised_since >= _raise_seconds(state)
    actions: list[ScaleInAction] = [*wrong]
    if called_off and not (state.seen_lowered or state.confirmed):
        # What is seen may be older than the write, which had no answer or has not been read back.
        called_off = False
        if state.asked_at is None or now - state.asked_at >= RETRY_SECONDS:
            state = replace(state, asked_at=now)
            actions.append(ReadScale(operation.id))
    if len(gone) < state.leaving and not called_off:
        if now < state.deadline:
            return state, tuple(actions)
        # The controller will still choose, whenever it does: nobody may take a task before that.
        held = tuple(uid for uid in sorted(operation.fenced) if uid in staying)
        return replace(state, deadline=now + VERIFY_DEADLINE_SECONDS), (*actions, Fence(operation.id, held))
    spared = replace(
        operation,
        victims=tuple(pod for pod in operation.victims if pod.uid in staying),
        guards=tuple(pod for pod in operation.guards if pod.uid in staying),
    )
    _, lifts = _lift(spared, now)
    return Idle(lifted_at=now), (*wrong, *lifts)


def _raised_since(state: Verifying, view: ScaleInView, now: float) -> float | None:
    """Give since when the replicas are seen raised again, with a ReplicaSet that has nobody to delete."""
    if view.observation.replicas <= state.to_replicas or _deletes(view):
        return None
    return now if state.raised_since is None else state.raised_since


def _raise_seconds(state: Verifying) -> float:
    """Give how long a higher number must be seen: after a write without an answer it may still be lowered."""
    return SETTLE_SECONDS if state.seen_lowered else UNANSWERED_SECONDS


def _wrong_victims(operation: Operation, view: ScaleInView, uids: Iterable[str]) -> list[RecordWrongVictim]:
    """Find the pods that went without having been fenced and whose workers hold leases."""
    names = {pod.uid: pod.name for pod in view.observation.pods}
    leases: dict[str, int] = {}
    for worker in view.observation.workers:
        leases[worker.pod_uid] = leases.get(worker.pod_uid, 0) + worker.leases
    return [
        RecordWrongVictim(operation.id, PodName(uid, names.get(uid, "")), leases[uid])
        for uid in sorted(uids)
        if leases.get(uid)
    ]


def _lift(
    operation: Operation, now: float, *, raced: str = "", failed: str = "", avoid: frozenset[str] = frozenset()
) -> Step:
    """End the operation: everything it set is lifted.

    One that lost a race is soon tried again; one that failed later and later, for it may fail for a lasting reason.
    """
    failures, wait = operation.failures, RACE_RETRY_SECONDS if raced else 0.0
    if failed:
        wait = min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2.0 ** min(failures, _MAX_DOUBLINGS))
        failures += 1
    fenced = tuple(pod.uid for pod in (*operation.victims, *operation.guards))
    actions: list[ScaleInAction] = []
    if fenced:
        actions.append(Unfence(operation.id, fenced))
    if operation.victims:
        actions.append(ClearCost(operation.victims))
    state = Idle(not_before=now + wait, failures=failures, avoid=avoid, lifted_at=now, waits_for=failed or raced)
    return state, tuple(actions)


def _settled(view: ScaleInView, present: list[PodSample]) -> bool:
    """Say whether the ReplicaSet's status agrees with the pods: only then does a later difference mean anything."""
    status = view.replica_set
    return (
        status is not None
        and status.observed
        and status.replicas == view.observation.replicas
        and status.current_replicas == len(present)
        and status.ready_replicas == sum(pod.ready for pod in present)
    )


def _deletes(view: ScaleInView) -> bool:
    """Say whether the controller still has pods to delete: there are more than its ReplicaSet is to have."""
    wanted = view.observation.replicas
    if view.replica_set is None:  # a rollout, which has more pods for a while
        return False
    return min(wanted, view.replica_set.replicas) < len(_present(view))


def _seen(operation: Operation, status: ReplicaSetSample | None) -> bool:
    """Say whether the ReplicaSet's controller has seen every fenced pod turn not ready.

    Nothing else about the pool's pods has changed since status and pods agreed, so the number can have no other
    cause.
    """
    ready = {uid for uid, (was_ready, _) in operation.before.items() if was_ready}
    return (
        status is not None
        and status.observed
        and status.replicas == operation.from_replicas
        and status.current_replicas == len(operation.before)
        and status.ready_replicas == len(ready - operation.fenced)
    )


def _others(operation: Operation, view: ScaleInView) -> bool:
    """Say whether any pod came, went or changed its readiness, but for the fenced ones turning not ready."""
    now = _readiness(view)
    if now.keys() != operation.before.keys():
        return True
    return any(
        now[uid] != before and (uid not in operation.fenced or now[uid][0])
        for uid, before in operation.before.items()
    )


def _readiness(view: ScaleInView) -> Mapping[str, Readiness]:
    return {pod.uid: pod.readiness for pod in _present(view)}


def _is_marked(pod: PodSample) -> bool:
    return pod.deletion_cost == VICTIM_DELETION_COST


def _pre_empted(view: ScaleInView) -> bool:
    return view.decision.action is not Action.SCALE_IN


def _epoch(view: ScaleInView) -> str:
    return "" if view.observation.signal is None else view.observation.signal.epoch


def _present(view: ScaleInView) -> list[PodSample]:
    return [pod for pod in view.observation.pods if not pod.terminating]
