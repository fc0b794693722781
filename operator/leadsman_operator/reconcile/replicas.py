"""Writing a Deployment's replicas: who may, under which precondition, and what the cache knows afterwards."""

import asyncio
from enum import StrEnum
from typing import Any, Protocol

import structlog

from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.cache import REPLICAS_IN_TEMPLATE, REPLICAS_MANAGERS, Cache
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.resources import FIELD_MANAGER, Kind
from leadsman_operator.kube.scale import ChangedError, OtherWriterError, write_replicas
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.pools import Pool
from leadsman_operator.reconcile.record import PoolRecord

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
    UNKNOWN = "unknown"
    """No answer came: it may have gone through. Only the Deployment itself can tell."""


class ReplicaWriter:
    """Writes `/scale` as the one manager of the field."""

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        leadership: Leadership,
        events: EventRecorder,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._cache = cache
        self._leadership = leadership
        self._events = events
        self._metrics = metrics

    async def write(
        self,
        pool: Pool,
        record: PoolRecord,
        deployment: Object,
        replicas: int,
        *,
        resource_version: str | None = None,
    ) -> WriteOutcome:
        """Write the number; return what became of it.

        The field is taken by force only where it never was ours (first write to a referenced Deployment) or when
        another writer's quiet time is over. Raises NotLeaderError. Everything else that goes wrong is an outcome:
        the next look sees the truth.
        """
        before = int(deployment["spec"].get("replicas") or 0)
        force = record.contention.taking_back or not record.took_scale
        try:
            scale = await self._send(pool, deployment, replicas, resource_version, force)
        except OtherWriterError as error:
            outcome = WriteOutcome.OTHER_WRITER
            now = asyncio.get_running_loop().time()
            record.contention.notice(error.managers, before, pool.generation, now)
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
            refused = isinstance(error, ApiError) and error.status < 500
            outcome = WriteOutcome.FAILED if refused else WriteOutcome.UNKNOWN
        else:
            outcome = WriteOutcome.WRITTEN
            record.took_scale = True
            self._remember(deployment, replicas, scale)
            self._tell_taken_back(pool, record.contention.written(pool.generation))
        direction = "out" if replicas > before else "in"
        self._metrics.scale_writes.labels(*pool.key, direction, outcome.value).inc()
        return outcome

    def _tell_taken_back(self, pool: Pool, managers: tuple[str, ...]) -> None:
        if managers:
            note = f"replicas of Deployment {pool.model.deployment_name} taken back from {', '.join(managers)}"
            self._events.record(pool.obj, EventReason.TOOK_BACK, note, action="TakeBack")

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
