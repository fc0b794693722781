"""The project's objects in one namespace, as a person with kubectl handles them."""

from typing import Any

from . import kube as paths
from .kube import Kube
from .waiting import until

_PATHS = {
    "Capability": paths.CAPABILITIES,
    "WorkerPool": paths.POOLS,
    "Deployment": paths.DEPLOYMENTS,
}


class Pools:
    """Capabilities, pools and what became of them."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube = kube
        self.namespace = namespace

    def path(self, kind: str, name: str) -> str:
        """Where an object of a kind is."""
        return f"{_PATHS[kind].format(namespace=self.namespace)}/{name}"

    async def apply(self, *manifests: dict[str, Any]) -> None:
        """Server-side apply, in order. KubeError when the server refuses one."""
        for manifest in manifests:
            await self.kube.apply(self.path(manifest["kind"], manifest["metadata"]["name"]), manifest)

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        await self.kube.delete(self.path(kind, name))

    async def pool(self, name: str) -> dict[str, Any]:
        """A pool as it is stored."""
        return await self.kube.get(self.path("WorkerPool", name))

    async def deployment(self, name: str) -> dict[str, Any] | None:
        """The Deployment of a pool, if there is one."""
        return await self.kube.find(self.path("Deployment", name))

    async def pods(self, name: str) -> list[dict[str, Any]]:
        """The pods of a pool."""
        listing = await self.kube.get(
            paths.PODS.format(namespace=self.namespace), labelSelector=f"leadsman.dev/pool={name}"
        )
        found: list[dict[str, Any]] = listing["items"]
        return found

    async def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition of a pool; empty while it has none of that kind."""
        return _condition(await self.pool(name), kind)

    async def until_condition(
        self,
        name: str,
        kind: str,
        status: str,
        *,
        reason: str | None = None,
        seconds: float = 30.0,
        every_seconds: float = 0.1,
    ) -> dict[str, Any]:
        """Wait until a condition has this status (and reason) for the spec as it is now, and return it."""

        async def look() -> dict[str, Any] | None:
            pool = await self.pool(name)
            found = _condition(pool, kind)
            right = found.get("status") == status and reason in {None, found.get("reason")}
            return found if right and found["observedGeneration"] == pool["metadata"]["generation"] else None

        wanted = f"{kind}={status}" + (f" for {reason}" if reason else "")
        try:
            return await until(f"{wanted} of pool {name}", look, seconds=seconds, every_seconds=every_seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {(await self.pool(name)).get('status')}") from None

    async def until_ready(self, *names: str, seconds: float = 30.0, every_seconds: float = 0.1) -> None:
        """Wait until these pools are accepted, applied and know their signal."""
        for name in names:
            await self.until_condition(name, "Ready", "True", seconds=seconds, every_seconds=every_seconds)

    async def events(self, name: str, reason: str | None = None) -> list[dict[str, Any]]:
        """The events about a pool, oldest first."""
        listing = await self.kube.get(
            paths.EVENTS.format(namespace=self.namespace), fieldSelector=f"regarding.name={name}"
        )
        about = [one for one in listing["items"] if one["regarding"]["kind"] == "WorkerPool"]
        return [one for one in about if reason in {None, one["reason"]}]


def _condition(pool: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = pool.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), {})
