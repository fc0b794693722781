"""One pool and the scale-in protocol, step by step."""

import dataclasses

from leadsman.reasons import Reason
from leadsman_operator.scaling.advance import advance
from leadsman_operator.scaling.model import Action, Decision
from leadsman_operator.scaling.scale_in import (
    SETTLE_SECONDS,
    VICTIM_DELETION_COST,
    FenceReplied,
    Idle,
    ReplicaSetSample,
    ScaleInView,
    ScaleOutcome,
    ScaleReplied,
)
from scaling_cases import observe, pool, workers

NOW = 5000.0


def decision(current, target):
    return Decision(
        action=Action.SCALE_IN if target < current else Action.SCALE_OUT if target > current else Action.HOLD,
        current=current,
        replicas=target,
        recommended=target,
        slots=target,
        reason=Reason.WORKERS_NOT_NEEDED,
        summary="",
    )


class Scene:
    """A pool of five idle workers of which two are to go; the caller changes what is seen between the steps."""

    def __init__(self, size=5, target=3, leases=None):
        self.now = NOW
        self.target = target
        self.observation = observe(size, workers=workers(*(leases or [0] * size)))
        self.fences = {}
        self.replica_set = self.agreeing()
        self.state = Idle()
        self.step()
        self.now += SETTLE_SECONDS

    def agreeing(self):
        present = [pod for pod in self.observation.pods if not pod.terminating]
        return ReplicaSetSample(
            self.observation.replicas,
            observed=True,
            current_replicas=len(present),
            ready_replicas=sum(p.ready for p in present),
        )

    def step(self, *events, wait=0.0):
        self.now += wait
        view = ScaleInView(
            spec=pool(),
            observation=self.observation,
            decision=decision(self.observation.replicas, self.target),
            operation=f"op-{self.now:.1f}",
            resource_version="7",
            fences=self.fences,
            replica_set=self.replica_set,
        )
        self.state, actions = advance(self.state, view, events, self.now)
        return actions

    def pod(self, uid, **changes):
        self.observation = dataclasses.replace(
            self.observation,
            pods=tuple(
                dataclasses.replace(pod, **changes) if pod.uid == uid else pod for pod in self.observation.pods
            ),
        )

    def fenced(self, *uids):
        """Fence the asked ones, or only these."""
        operation = self.state.operation.id
        done = frozenset(uids or self.state.operation.fenced)
        self.fences.update(dict.fromkeys(done, operation))
        return FenceReplied(operation, "epoch-1", done)

    def turned(self):
        """The fenced pods are marked and not ready, and the controller has seen it."""
        for uid in self.state.operation.fenced:
            self.pod(uid, ready=False, deletion_cost=VICTIM_DELETION_COST)
        self.replica_set = self.agreeing()

    def lowered(self):
        return ScaleReplied(self.state.operation.id, ScaleOutcome.LOWERED)
