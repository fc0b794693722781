"""Annotations on pods: who goes first, and who must not be disturbed. By UID, so that no namesake is hit."""

import asyncio
from collections.abc import Mapping
from typing import Any

from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError
from leadsman_operator.kube.resources import Kind

Object = dict[str, Any]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Kubernetes: a ReplicaSet that shrinks deletes pods of lower cost first, among those that are equally ready."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"

BUSY_COST = 1000
"""Deletion cost of a pod that holds leases: last to go, whoever shrinks the ReplicaSet."""

BUSY_MARKS: Mapping[str, str] = {DELETION_COST: str(BUSY_COST), SAFE_TO_EVICT: "false", DO_NOT_DISRUPT: "true"}

PATCHES_PER_SECOND = 5.0


class Pace:
    """At most so many patches a second for one pool, with a small burst."""

    def __init__(self, per_second: float = PATCHES_PER_SECOND) -> None:
        self._per_second = per_second
        self._tokens = per_second
        self._at: float | None = None

    def take(self) -> bool:
        """Whether one more may go now."""
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._tokens = min(self._per_second, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def annotate(
    client: KubeClient, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]
) -> Object | None:
    """Set annotations, None to remove one; return the pod, or None when this pod is gone.

    The UID in the patch makes it fail on a successor of the same name.
    """
    body = {"metadata": {"uid": uid, "annotations": dict(annotations)}}
    try:
        return await client.merge(Kind.POD, namespace, name, body)
    except ApiError as error:
        if error.not_found or error.conflict or (error.status == 422 and "uid" in error.message):
            return None
        raise
