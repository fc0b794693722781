"""A Deployment and its ReplicaSet without a cluster: which pods there are, and which go when there are too many.

The scale-in protocol relies on the order in which the ReplicaSet controller deletes pods. It is the same here, so
that the protocol's own code runs unchanged: pods that are not ready first, then the lower deletion cost, then the
newest.
"""

from collections.abc import Callable
from dataclasses import dataclass

from leadsman_operator.scaling.model import PodName, PodSample
from leadsman_operator.scaling.scale_in import VICTIM_DELETION_COST, ReplicaSetSample


@dataclass(slots=True, eq=False)
class Pod:
    """One pod, or one process that stands for it."""

    uid: str
    name: str
    created_at: float
    number: int
    """In order of creation."""
    ready: bool = False
    readiness_changes: int = 0
    terminating: bool = False
    failing: bool = False
    deletion_cost: int = 0
    _seen: PodSample | None = None

    def set_ready(self, *, ready: bool) -> bool:
        """Note the readiness; return whether it changed."""
        if self.ready == ready:
            return False
        self.ready = ready
        self.readiness_changes += 1
        return True

    def sample(self) -> PodSample:
        """Return it as a decision sees it; the same one until it changes, for there are many looks."""
        seen = self._seen
        if (
            seen is not None
            and seen.ready is self.ready
            and seen.terminating is self.terminating
            and seen.failing is self.failing
            and seen.deletion_cost == self.deletion_cost
            and seen.ready_changed == str(self.readiness_changes)
        ):
            return seen
        self._seen = PodSample(
            uid=self.uid,
            name=self.name,
            ready=self.ready,
            ready_changed=str(self.readiness_changes),
            terminating=self.terminating,
            failing=self.failing,
            deletion_cost=self.deletion_cost,
        )
        return self._seen


class Fleet:
    """The pods of one pool. `make_uid` gives a new pod its UID; the same one is never given twice."""

    def __init__(self, name: str, make_uid: Callable[[], str]) -> None:
        self.name = name
        self.replicas = 0
        self.resource_version = 1
        self.pods: dict[str, Pod] = {}
        self._make_uid = make_uid
        self._made = 0

    def write(self, replicas: int) -> None:
        """Write the number of replicas, as a write of `/scale` does."""
        if replicas != self.replicas:
            self.replicas = replicas
            self.resource_version += 1

    def lower(self, replicas: int, resource_version: str) -> bool:
        """Write it with a precondition; return False when somebody wrote in between."""
        if str(self.resource_version) != resource_version:
            return False
        self.write(replicas)
        return True

    def reconcile(self, now: float) -> tuple[list[Pod], list[Pod]]:
        """Make what is missing and mark what is too many; return the pods made, and those that are to end."""
        present = [pod for pod in self.pods.values() if not pod.terminating]
        made = []
        for _ in range(self.replicas - len(present)):
            self._made += 1
            pod = Pod(self._make_uid(), f"{self.name}-{self._made}", now, self._made)
            self.pods[pod.uid] = pod
            made.append(pod)
        doomed = sorted(present, key=_deletion_rank)[: max(0, len(present) - self.replicas)]
        for pod in doomed:
            pod.terminating = True
        return made, doomed

    def remove(self, pod: Pod) -> None:
        """Forget a pod that has ended; `reconcile` makes another one in its place if there is to be one."""
        self.pods.pop(pod.uid, None)

    def mark(self, pods: tuple[PodName, ...], *, victim: bool) -> None:
        """Set the deletion cost of a victim, or take it away."""
        for each in pods:
            pod = self.pods.get(each.uid)
            if pod is not None:
                pod.deletion_cost = VICTIM_DELETION_COST if victim else 0

    def status(self) -> ReplicaSetSample:
        """Return what the ReplicaSet's controller reports."""
        present = [pod for pod in self.pods.values() if not pod.terminating]
        return ReplicaSetSample(
            replicas=self.replicas,
            observed=True,
            current_replicas=len(present),
            ready_replicas=sum(pod.ready for pod in present),
        )

    def samples(self) -> tuple[PodSample, ...]:
        """Return the pods as a decision sees them."""
        return tuple(pod.sample() for pod in self.pods.values())


def _deletion_rank(pod: Pod) -> tuple[bool, int, int]:
    return pod.ready, pod.deletion_cost, -pod.number
