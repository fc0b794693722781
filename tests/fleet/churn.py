"""Other people's Deployments, scaled at random: the load under which the ReplicaSet controller's cache lags."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from .kube import DEPLOYMENTS, MERGE, Kube, KubeError


@contextlib.asynccontextmanager
async def churning(
    kube: Kube,
    namespace: str,
    *,
    deployments: int = 12,
    most_replicas: int = 4,
    every_seconds: float = 0.15,
    seed: int = 0,
) -> AsyncIterator[None]:
    """Keep `deployments` Deployments of this namespace changing size until the block ends."""
    names = [f"other-{number}" for number in range(deployments)]
    for name in names:
        await kube.create(DEPLOYMENTS.format(namespace=namespace), _deployment(name))
    task = asyncio.create_task(_change(kube, namespace, names, most_replicas, every_seconds, random.Random(seed)))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _change(
    kube: Kube, namespace: str, names: list[str], most: int, every_seconds: float, rng: random.Random
) -> None:
    while True:
        path = f"{DEPLOYMENTS.format(namespace=namespace)}/{rng.choice(names)}/scale"
        # A busy API server may be slow to answer; the load goes on.
        with contextlib.suppress(KubeError, aiohttp.ClientError, TimeoutError):
            await kube.patch(path, {"spec": {"replicas": rng.randint(0, most)}}, MERGE)
        await asyncio.sleep(rng.uniform(0, 2 * every_seconds))


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": False,
                    "containers": [{"name": "main", "image": "other"}],
                },
            },
        },
    }
