"""What the watches have told us: one copy of every object that decisions are made from.

Two sources feed it, the watches and the periodic full lists, and they arrive in any order. The newer resource
version wins, a deletion holds against any older copy, and an object is known by its UID: the name alone may already
belong to its successor.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from leadsman_operator.kube.ownership import replicas_held_by_template, replicas_managers
from leadsman_operator.kube.resources import FIELD_MANAGER, POOL_LABEL, WATCHED, Kind
from leadsman_operator.kube.tombstones import Tombstones

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

REPLICAS_MANAGERS = "replicasManagers"
"""In the metadata of a cached Deployment, in place of its managed fields: who writes its replicas."""
REPLICAS_IN_TEMPLATE = "replicasInTemplate"
"""Likewise: whether we own the replicas by our apply of the template, as after a creation that was cut short."""

_LABELLED = (Kind.REPLICA_SET, Kind.POD)


class Cache:
    """Objects by kind, namespace and name; pods and ReplicaSets also by the pool in their label."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Object]] = {kind: {} for kind in WATCHED}
        self._by_pool: dict[Kind, dict[Key, set[Key]]] = {kind: defaultdict(set) for kind in _LABELLED}
        self._gone = Tombstones()
        self._held: Counter[str] = Counter()
        """Objects that are no pools, by namespace."""
        self._changed: dict[str, int] = {}
        """The last change among them, by namespace; the namespaces that have none are left out."""
        self._change = 0

    def put(self, kind: Kind, obj: Object) -> bool:
        """Store an object; False when something newer is already known of it."""
        meta = obj["metadata"]
        if meta["uid"] in self._gone:
            return False
        key = key_of(obj)
        known = self._objects[kind].get(key)
        if known is not None and version_of(known) >= version_of(obj):
            return False
        self._unindex(kind, key, known)
        self._objects[kind][key] = _slim(kind, obj)
        if kind in self._by_pool and (pool := pool_label(obj)):
            self._by_pool[kind][key[0], pool].add(key)
        self._count(kind, key[0], more=1 if known is None else 0)
        return True

    def remove(self, kind: Kind, obj: Object) -> bool:
        """Forget an object that was deleted; False when its name already belongs to another one."""
        uid = obj["metadata"]["uid"]
        self._gone.add(uid)
        key = key_of(obj)
        known = self._objects[kind].get(key)
        if known is None or known["metadata"]["uid"] != uid:
            return False
        self._unindex(kind, key, known)
        del self._objects[kind][key]
        self._count(kind, key[0], more=-1)
        return True

    def prune(self, kind: Kind, namespace: str | None, listed: Iterable[str], version: int) -> list[Object]:
        """Forget what a full list no longer has; return it.

        `listed` are the UIDs in the list and `version` the list's resource version: an object that is newer than
        the list may have been made after it.
        """
        present = set(listed)
        missing = [
            obj
            for (within, _), obj in self._objects[kind].items()
            if (namespace is None or within == namespace)
            and obj["metadata"]["uid"] not in present
            and version_of(obj) <= version
        ]
        for obj in missing:
            self.remove(kind, obj)
        return missing

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return an object, or None when it does not exist as far as we know."""
        return self._objects[kind].get((namespace, name))

    def all(self, kind: Kind) -> Iterator[Object]:
        """Iterate over every object of a kind."""
        return iter(tuple(self._objects[kind].values()))

    def count(self, kind: Kind) -> int:
        """How many objects of a kind there are."""
        return len(self._objects[kind])

    def of_pool(self, kind: Kind, namespace: str, pool: str) -> list[Object]:
        """Return the pods or ReplicaSets that carry the pool's label."""
        keys = self._by_pool[kind].get((namespace, pool), ())
        return [self._objects[kind][key] for key in sorted(keys)]

    def changes(self, namespace: str) -> int:
        """Return a number that is another one after every change of anything but a pool in a namespace.

        Pools are left out because they change by their own status too. 0: there is nothing in it.
        """
        return self._changed.get(namespace, 0)

    def _count(self, kind: Kind, namespace: str, *, more: int) -> None:
        if kind is Kind.WORKER_POOL:
            return
        self._change += 1
        self._changed[namespace] = self._change
        self._held[namespace] += more
        if not self._held[namespace]:
            del self._held[namespace], self._changed[namespace]

    def _unindex(self, kind: Kind, key: Key, known: Object | None) -> None:
        if known is None or kind not in self._by_pool:
            return
        pool = pool_label(known)
        if not pool:
            return
        index = self._by_pool[kind]
        index[key[0], pool].discard(key)
        if not index[key[0], pool]:
            del index[key[0], pool]


def key_of(obj: Object) -> Key:
    """Return namespace and name."""
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def version_of(obj: Object) -> int:
    """Return the resource version; the API server's are ordered numbers within a kind."""
    return int(obj["metadata"]["resourceVersion"])


def pool_label(obj: Object) -> str | None:
    """Return the name of the pool that the object belongs to by its label."""
    found: str | None = (obj["metadata"].get("labels") or {}).get(POOL_LABEL)
    return found


def _slim(kind: Kind, obj: Object) -> Object:
    """Leave out what is large and never read; of the managed fields keep who writes a Deployment's replicas."""
    meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    if kind is Kind.DEPLOYMENT and "managedFields" in obj["metadata"]:
        meta[REPLICAS_MANAGERS] = replicas_managers(obj)
        meta[REPLICAS_IN_TEMPLATE] = replicas_held_by_template(obj, FIELD_MANAGER)
    annotations = meta.get("annotations")
    if annotations and "kubectl.kubernetes.io/last-applied-configuration" in annotations:
        meta["annotations"] = {
            k: v for k, v in annotations.items() if k != "kubectl.kubernetes.io/last-applied-configuration"
        }
    return {**obj, "metadata": meta}
