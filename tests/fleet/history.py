"""Every value that a Deployment's `spec.replicas` takes, in the order in which the API server stored them."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from .kube import DEPLOYMENTS, Kube


@dataclass(frozen=True)
class Size:
    """One stored change of the wanted number of replicas."""

    replicas: int
    generation: int
    at: float
    """Monotonic seconds, when the watch event came."""


class ReplicaHistory:
    """The sizes of the Deployments of one namespace. A watch sees every stored version, so no change is missed."""

    def __init__(self) -> None:
        self.sizes: dict[str, list[Size]] = {}
        self._changed = asyncio.Condition()

    def replicas(self, name: str) -> list[int]:
        """The successive different values, the one at creation first."""
        return [size.replicas for size in self.sizes.get(name, [])]

    def scale_ins(self, name: str) -> int:
        """How many of the changes lowered the number."""
        values = self.replicas(name)
        return sum(after < before for before, after in itertools.pairwise(values))

    async def until(self, what: str, check: Callable[["ReplicaHistory"], bool], *, seconds: float = 60.0) -> None:
        """Wait for a change after which `check` holds. AssertionError with the whole history otherwise."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: check(self))
        except TimeoutError:
            shown = {name: self.replicas(name) for name in self.sizes}
            raise AssertionError(f"{what} did not come within {seconds:.0f} s; sizes so far: {shown}") from None

    async def follow(self, kube: Kube, namespace: str) -> None:
        """Record for ever."""
        async for kind, manifest in kube.watch(DEPLOYMENTS.format(namespace=namespace)):
            at = time.monotonic()
            if kind == "DELETED":
                continue
            sizes = self.sizes.setdefault(manifest["metadata"]["name"], [])
            replicas = manifest["spec"]["replicas"]
            if not sizes or sizes[-1].replicas != replicas:
                async with self._changed:
                    sizes.append(Size(replicas, manifest["metadata"]["generation"], at))
                    self._changed.notify_all()


@contextlib.asynccontextmanager
async def recorded(kube: Kube, namespace: str) -> AsyncIterator[ReplicaHistory]:
    """Record the sizes of a namespace's Deployments while the block runs."""
    history = ReplicaHistory()
    task = asyncio.create_task(history.follow(kube, namespace))
    try:
        yield history
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
