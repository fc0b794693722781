"""A Node object that stays Ready because somebody renews its lease, as a kubelet does every ten seconds."""

import asyncio
import datetime as dt
from typing import Any

import aiohttp

from .kube import MERGE, NODES, Kube, KubeError
from .waiting import until

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_SECONDS = 40
_BEAT_SECONDS = 10.0


class Node:
    """One node of this process's making; big enough for everything, and no machine behind it."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.name = name
        self._kube = kube

    async def register(self) -> None:
        """Make the node and its lease, and wait until the scheduler may use it."""
        await self._kube.create(NODES, self._manifest())
        await self._kube.create(
            _LEASES,
            {
                "metadata": {"name": self.name},
                "spec": {
                    "holderIdentity": self.name,
                    "leaseDurationSeconds": _LEASE_SECONDS,
                    "renewTime": _micro_now(),
                },
            },
        )
        # The API server taints every new node; the node controller takes that away once it sees Ready.
        await until("a node without taints", self._untainted)

    async def beat(self) -> None:
        """Renew the lease for ever."""
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            try:
                await self._kube.patch(f"{_LEASES}/{self.name}", {"spec": {"renewTime": _micro_now()}}, MERGE)
            except (KubeError, aiohttp.ClientError, TimeoutError):
                # A kubelet tries again too; four misses make the node NotReady, and the test shows it.
                continue

    async def _untainted(self) -> bool:
        return not (await self._kube.get(f"{NODES}/{self.name}"))["spec"].get("taints")

    async def remove(self) -> None:
        """Take the node out of the cluster."""
        await self._kube.delete(f"{_LEASES}/{self.name}")
        await self._kube.delete(f"{NODES}/{self.name}")

    def _manifest(self) -> dict[str, Any]:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        size = {"cpu": "10000", "memory": "100Ti", "pods": "10000", "ephemeral-storage": "100Ti"}
        return {
            "metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name}},
            "status": {
                "capacity": size,
                "allocatable": size,
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "lastHeartbeatTime": now,
                        "lastTransitionTime": now,
                    }
                ],
            },
        }


def _micro_now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
