"""Full lists: the first filling of the cache, and the check of what the watches may have missed."""

from leadsman_operator.kube.cache import Cache, Object
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.resources import SELECTORS, Kind

_API_VERSIONS = {kind: f"{kind.group}/{kind.version}" if kind.group else kind.version for kind in Kind}
_NAMES = {
    Kind.WORKER_POOL: "WorkerPool",
    Kind.CAPABILITY: "Capability",
    Kind.DEPLOYMENT: "Deployment",
    Kind.REPLICA_SET: "ReplicaSet",
    Kind.POD: "Pod",
}


async def list_into(client: KubeClient, cache: Cache, kind: Kind, namespace: str | None) -> list[Object]:
    """Bring one kind in the cache up to a full list; return what that changed, deleted objects included.

    Raises ApiError and UnreachableError; a list that fails half-way removes nothing.
    """
    changed: list[Object] = []
    listed: list[str] = []
    version = 0
    async for items, at in client.pages(kind, namespace, selector=SELECTORS.get(kind)):
        version = version or int(at)
        for item in items:
            item.setdefault("apiVersion", _API_VERSIONS[kind])
            item.setdefault("kind", _NAMES[kind])
            listed.append(item["metadata"]["uid"])
            if cache.put(kind, item):
                changed.append(item)
    changed += cache.prune(kind, namespace, listed, version)
    return changed
