"""The pools as they are asked for: parsed once per change, and found by queue and by Deployment."""

import dataclasses
import datetime as dt
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from leadsman_operator.api import WorkerPool, pool_spec
from leadsman_operator.kube.cache import Key, key_of
from leadsman_operator.reconcile.schedules import spec_at
from leadsman_operator.scaling.model import PoolSpec

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as it was last read."""

    obj: Object
    model: WorkerPool
    spec: PoolSpec
    """Without schedules; see `at`."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return key_of(self.obj)

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.key[0]

    @property
    def name(self) -> str:
        """Its name."""
        return self.key[1]

    @property
    def uid(self) -> str:
        """Its UID."""
        uid: str = self.obj["metadata"]["uid"]
        return uid

    @property
    def generation(self) -> int:
        """The generation of its spec."""
        return int(self.obj["metadata"].get("generation") or 0)

    def at(self, now: dt.datetime) -> "tuple[Pool, float | None]":
        """Return the pool with the bounds its schedules give it at `now`, and in how many seconds to look again."""
        spec, again = spec_at(self.spec, self.model.spec.scaling.schedules, now)
        return (self, again) if spec is self.spec else (dataclasses.replace(self, spec=spec), again)

    @property
    def owns_deployment(self) -> bool:
        """Whether its Deployment is made by us."""
        return self.model.spec.deployment_ref is None

    @property
    def age_order(self) -> tuple[str, str]:
        """Sorts pools by age, oldest first; those of one second by name."""
        return str(self.obj["metadata"].get("creationTimestamp") or ""), self.name


class PoolIndex:
    """Every pool whose spec can be read, and what is wrong with the others."""

    def __init__(self) -> None:
        self._pools: dict[Key, Pool] = {}
        self._problems: dict[Key, str] = {}
        self._serving: dict[Key, set[str]] = defaultdict(set)
        self._scaling: dict[Key, set[str]] = defaultdict(set)
        self.changes = 0
        """How often the spec of any pool has changed."""

    def put(self, obj: Object) -> None:
        """Read a pool anew."""
        key = key_of(obj)
        known = self._pools.get(key)
        if known is not None and _same_spec(known.obj, obj):
            self._pools[key] = Pool(obj, known.model, known.spec)
            return
        self.remove(key)
        try:
            model = WorkerPool.model_validate(obj)
            pool = Pool(obj, model, pool_spec(model))
        except ValidationError as error:
            self._problems[key] = _explain(error)
            return
        self._pools[key] = pool
        for capability in pool.spec.capabilities:
            self._serving[key[0], capability].add(key[1])
        self._scaling[key[0], model.deployment_name].add(key[1])

    def remove(self, key: Key) -> None:
        """Forget a pool."""
        self.changes += 1
        self._problems.pop(key, None)
        pool = self._pools.pop(key, None)
        if pool is None:
            return
        for capability in pool.spec.capabilities:
            _discard(self._serving, (key[0], capability), key[1])
        _discard(self._scaling, (key[0], pool.model.deployment_name), key[1])

    def get(self, key: Key) -> Pool | None:
        """Return a pool, or None when there is none whose spec can be read."""
        return self._pools.get(key)

    def problem(self, key: Key) -> str | None:
        """Return what is wrong with a spec that cannot be read."""
        return self._problems.get(key)

    def all_keys(self) -> list[Key]:
        """Every pool, readable or not."""
        return [*self._pools, *self._problems]

    def serving(self, namespace: str, capability: str) -> list[Pool]:
        """Return the pools that list a capability, by name."""
        return [self._pools[namespace, name] for name in sorted(self._serving.get((namespace, capability), ()))]

    def max_slots(self, namespace: str, capability: str) -> int | None:
        """Return how many slots the pools that list a capability may grow to; None when there is no such pool."""
        pools = self.serving(namespace, capability)
        return sum(pool.spec.max_slots for pool in pools) if pools else None

    def scaling(self, namespace: str, deployment: str) -> list[Pool]:
        """Return the pools that scale a Deployment, the oldest first."""
        pools = [self._pools[namespace, name] for name in self._scaling.get((namespace, deployment), ())]
        return sorted(pools, key=lambda pool: pool.age_order)

    def group(self, key: Key) -> list[Pool]:
        """Return the pools whose sizes can depend on one another, by name: those linked by shared capabilities."""
        first = self._pools.get(key)
        if first is None:
            return []
        namespace = key[0]
        seen = {first.name}
        capabilities = set(first.spec.capabilities)
        ahead = list(capabilities)
        while ahead:
            for name in self._serving.get((namespace, ahead.pop()), ()):
                if name in seen:
                    continue
                seen.add(name)
                fresh = set(self._pools[namespace, name].spec.capabilities) - capabilities
                capabilities |= fresh
                ahead.extend(fresh)
        return [self._pools[namespace, name] for name in sorted(seen)]

    def served(self, namespace: str) -> set[str]:
        """Return the capabilities of a namespace that some pool lists."""
        return {capability for (within, capability) in self._serving if within == namespace}


def _same_spec(one: Object, other: Object) -> bool:
    return bool(one["metadata"]["uid"] == other["metadata"]["uid"] and one.get("spec") == other.get("spec"))


def _discard(index: dict[Key, set[str]], key: Key, name: str) -> None:
    index[key].discard(name)
    if not index[key]:
        del index[key]


def _explain(error: ValidationError) -> str:
    """Name the field and what is wrong with it; the first mistakes are enough."""
    found = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors(include_url=False)[:3]]
    return "; ".join(found)
