"""From what changed to who looks again."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from leadsman_operator.broker.state import BrokerState, Changed
from leadsman_operator.kube.cache import Cache, Key, key_of, pool_label
from leadsman_operator.kube.resources import Kind
from leadsman_operator.reconcile.controller import PoolController
from leadsman_operator.reconcile.pools import PoolIndex
from leadsman_operator.scaling.startup import PodBirths
from leadsman_operator.workqueue import Cause, WorkQueue

Object = dict[str, Any]


_SETTLES_SECONDS = 0.1
"""A change of size is many events: of the Deployment, its ReplicaSet and each pod, each several times.

They are looked at together after this time. What a pool is woken by, the broker's push, waits for nothing.
"""


class Feed:
    """Stores changes and queues the keys that they concern. Nothing in it waits."""

    def __init__(
        self,
        *,
        cache: Cache,
        index: PoolIndex,
        state: BrokerState,
        births: PodBirths,
        controller: PoolController,
        pools: WorkQueue[Key],
        namespaces: WorkQueue[str],
        forget_capability: Callable[[Key], None],
    ) -> None:
        self._cache = cache
        self._state = state
        self._index = index
        self._births = births
        self._controller = controller
        self._pools = pools
        self._namespaces = namespaces
        self._forget_capability = forget_capability

    def event(self, kind: Kind, event_type: str | None, obj: Object) -> None:
        """Take what a watch showed: an object added, modified, deleted, or (None) listed."""
        if event_type == "DELETED":
            if self._cache.remove(kind, obj):
                self.changed(kind, obj)
            elif kind is Kind.POD:
                self._births.gone(obj["metadata"]["uid"])
            return
        if self._cache.put(kind, obj):
            if kind is Kind.POD and event_type == "ADDED":
                self._births.born(obj["metadata"]["uid"], asyncio.get_running_loop().time())
            self.changed(kind, obj)

    def changed(self, kind: Kind, obj: Object) -> None:
        """Queue whom an object concerns whose copy in the cache is new, or that is gone."""
        namespace, name = key_of(obj)
        match kind:
            case Kind.WORKER_POOL:
                self._pool_changed((namespace, name))
            case Kind.CAPABILITY:
                if self._cache.get(kind, namespace, name) is None:
                    self._forget_capability((namespace, name))
                self._namespaces.add(namespace)
                self._look_at(namespace, name)
            case Kind.DEPLOYMENT:
                for pool in self._index.scaling(namespace, name):
                    self._pools.add_after(pool.key, _SETTLES_SECONDS)
            case Kind.REPLICA_SET | Kind.POD:
                if kind is Kind.POD and self._cache.get(kind, namespace, name) is None:
                    self._births.gone(obj["metadata"]["uid"])
                label = pool_label(obj)
                if label is not None:
                    self._pools.add_after((namespace, label), _SETTLES_SECONDS)

    def broker(self, change: Changed) -> None:
        """Queue whom a change of the broker's numbers concerns."""
        now = asyncio.get_running_loop().time()
        if change.everything:
            self._add_all_pools()
            for namespace in {name[0] for name in self._state.capabilities} | self._capability_namespaces():
                self._namespaces.add(namespace)
            return
        keys = set(change.pools)
        for namespace, capability in change.capabilities:
            keys.update(pool.key for pool in self._index.serving(namespace, capability))
        for key in keys:
            self._controller.pushed(key, now)
            self._pools.add(key, Cause.BROKER)

    def everything(self) -> None:
        """Look at all of it again."""
        self._add_all_pools()
        for namespace in self._capability_namespaces():
            self._namespaces.add(namespace)

    def missed(self, pools: Iterable[Key]) -> None:
        """Look at what was not looked at because we could not be sure to lead; the rules of queues are few."""
        for key in pools:
            self._pools.add(key, Cause.RETRY)
        for namespace in self._capability_namespaces():
            self._namespaces.add(namespace)

    def _add_all_pools(self) -> None:
        """Those with work first: after a restart they have waited, and there may be a thousand others."""
        busy: set[Key] = set()
        for (namespace, name), stats in self._state.capabilities.items():
            if stats.waiting:
                busy.update(pool.key for pool in self._index.serving(namespace, name))
        for key in sorted(self._index.all_keys(), key=lambda key: key not in busy):
            self._pools.add(key, Cause.EVERYTHING)

    def _pool_changed(self, key: Key) -> None:
        before = self._index.get(key)
        neighbours = {pool.key for pool in self._index.group(key)}
        obj = self._cache.get(Kind.WORKER_POOL, *key)
        if obj is None:
            self._index.remove(key)
        else:
            self._index.put(obj)
        after = self._index.get(key)
        if before is not None and after is not None and before.model is after.model:
            # Its status, mostly written by us.
            self._pools.add_after(key, _SETTLES_SECONDS)
            return
        self._pools.add(key)
        # What this pool serves may have changed: so have the parts of those that share it.
        for neighbour in neighbours | {pool.key for pool in self._index.group(key)}:
            self._pools.add(neighbour)
        for pool in (before, after):
            if pool is not None:
                for sibling in self._index.scaling(pool.namespace, pool.model.deployment_name):
                    self._pools.add(sibling.key)
        self._namespaces.add(key[0])

    def _look_at(self, namespace: str, capability: str) -> None:
        for pool in self._index.serving(namespace, capability):
            self._pools.add(pool.key)

    def _capability_namespaces(self) -> set[str]:
        return {key_of(obj)[0] for obj in self._cache.all(Kind.CAPABILITY)}
