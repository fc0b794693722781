"""Writing a Deployment's replicas: who may, under which precondition, and what the cache knows afterwards."""

from enum import StrEnum
from typing import Any, Protocol

import structlog

from leadsman_operator.kube.cache import REPLICAS_IN_TEMPLATE, REPLICAS_MANAGERS, Cache
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.resources import FIELD_MANAGER, Kind
from leadsman_operator.kube.scale import ChangedError, OtherWriterError, write_replicas
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.pools import Pool

Object = dict[str, Any]

_log = structlog.get_logger(__name__)


class Leadership(Protocol):
    """Whether this process may write, and for how many leaders before it."""

    term: int

    def holds(self) -> bool:
        """Whether this process may write at this moment."""

    def check(self) -> None:
        """Raise NotLeaderError when it may not."""


_TRIES = 4
"""Of one conditional write, while only the Deployment's status gets in between."""


class WriteOutcome(StrEnum):
    """What became of a write of replicas."""

    WRITTEN = "written"
    OTHER_WRITER = "conflict"
    CHANGED = "changed"
    FAILED = "failed"


class ReplicaWriter:
    """Writes `/scale` as the one manager of the field."""

    def __init__(self, client: KubeClient, cache: Cache, leadership: Leadership, metrics: Metrics) -> None:
        self._client = client
        self._cache = cache
        self._leadership = leadership
        self._metrics = metrics

    async def write(
        self,
        pool: Pool,
        deployment: Object,
        replicas: int,
        *,
        resource_version: str | None = None,
        force: bool = False,
    ) -> tuple[WriteOutcome, list[str]]:
        """Write the number; return what became of it and, on a conflict, the other managers.

        Raises NotLeaderError. Everything else that goes wrong is an outcome: the next look sees the truth.
        """
        before = int(deployment["spec"].get("replicas") or 0)
        managers: list[str] = []
        try:
            scale = await self._send(pool, deployment, replicas, resource_version, force)
        except OtherWriterError as error:
            outcome, managers = WriteOutcome.OTHER_WRITER, error.managers
        except ChangedError:
            outcome = WriteOutcome.CHANGED
        except (ApiError, UnreachableError) as error:
            _log.warning(
                "replicas not written",
                namespace=pool.namespace,
                pool=pool.name,
                replicas=replicas,
                error=str(error),
            )
            outcome = WriteOutcome.FAILED
        else:
            outcome = WriteOutcome.WRITTEN
            self._remember(deployment, replicas, scale)
        direction = "out" if replicas > before else "in"
        self._metrics.scale_writes.labels(*pool.key, direction, outcome.value).inc()
        return outcome, managers

    async def _send(
        self, pool: Pool, deployment: Object, replicas: int, resource_version: str | None, force: bool
    ) -> Object:
        """Write; when only the Deployment's status has changed since it was read, write again.

        Its controller counts ready pods all the time; none of that changes what the decision was made from.
        """
        name = deployment["metadata"]["name"]
        for tries_left in reversed(range(_TRIES)):
            self._leadership.check()
            try:
                return await write_replicas(
                    self._client, pool.namespace, name, replicas, resource_version=resource_version, force=force
                )
            except ChangedError:
                if not tries_left:
                    raise
            fresh = await self._client.get(Kind.DEPLOYMENT, pool.namespace, name)
            self._cache.put(Kind.DEPLOYMENT, fresh)
            if fresh["spec"] != deployment["spec"] or fresh["metadata"]["uid"] != deployment["metadata"]["uid"]:
                raise ChangedError("the Deployment's spec changed")
            resource_version = fresh["metadata"]["resourceVersion"] if resource_version is not None else None
        raise ChangedError("the Deployment changes all the time")

    def _remember(self, deployment: Object, replicas: int, scale: Object) -> None:
        """Put what the server answered into the cache, so that no look decides from the number before."""
        version = scale["metadata"].get("resourceVersion")
        if not version:
            return
        known = (
            self._cache.get(Kind.DEPLOYMENT, *(deployment["metadata"][k] for k in ("namespace", "name")))
            or deployment
        )
        changed = int(known["spec"].get("replicas") or 0) != replicas
        meta = {
            **known["metadata"],
            "resourceVersion": version,
            "generation": int(known["metadata"].get("generation") or 0) + (1 if changed else 0),
            REPLICAS_MANAGERS: [FIELD_MANAGER],
            REPLICAS_IN_TEMPLATE: False,
        }
        self._cache.put(
            Kind.DEPLOYMENT, {**known, "metadata": meta, "spec": {**known["spec"], "replicas": replicas}}
        )
