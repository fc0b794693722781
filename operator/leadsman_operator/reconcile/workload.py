"""Keeping a pool's Deployment as the pool asks: made once, applied on a change, never adopted."""

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import structlog

from leadsman.reasons import Reason
from leadsman_operator.kube.cache import REPLICAS_IN_TEMPLATE, Cache
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.manifest import (
    APPLIED_ANNOTATION,
    Injection,
    Workload,
    applied_hash,
    deployment,
    with_replicas,
)
from leadsman_operator.kube.ownership import controller_uid
from leadsman_operator.kube.resources import Kind
from leadsman_operator.kube.scale import write_replicas
from leadsman_operator.reconcile.observe import Surroundings
from leadsman_operator.reconcile.pools import Pool
from leadsman_operator.reconcile.problem import Problem
from leadsman_operator.reconcile.record import PoolRecord, Refusal
from leadsman_operator.reconcile.replicas import Leadership

Object = dict[str, Any]

_log = structlog.get_logger(__name__)

_REAPPLY_SECONDS = 60.0
"""An edited template is put right at most this often: whoever edits it in a loop is not fought."""


class Plan(Enum):
    """What is to be done with a Deployment."""

    NOTHING = "nothing"
    CREATE = "create"
    APPLY = "apply"
    WAIT = "wait"
    """It cannot be used as it is; see the problem."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a pool stands with its Deployment."""

    plan: Plan
    desired: Object | None = None
    """The Deployment as it should be, where there is something to write."""
    problem: Problem | None = None


class Workloads:
    """Makes and applies the Deployments of pools that have an image or a template."""

    def __init__(self, client: KubeClient, cache: Cache, leadership: Leadership, injection: Injection) -> None:
        self._client = client
        self._cache = cache
        self._leadership = leadership
        self._injection = injection

    def standing(
        self, pool: Pool, record: PoolRecord, around: Surroundings, siblings: list[Pool], now: float
    ) -> Standing:
        """Compare what is with what should be. `siblings`: all pools that scale this Deployment, oldest first."""
        if siblings and siblings[0].uid != pool.uid:
            other = siblings[0]
            return _problem(
                Reason.CONFLICT,
                f"WorkerPool {other.name} is older and scales Deployment {pool.model.deployment_name} too",
            )
        if not pool.owns_deployment:
            return self._referenced(pool, around)
        digest = self._wanted(pool, record)
        refused = record.refusal is not None and record.refusal.applied_hash == digest
        found = around.deployment
        if found is None:
            return Standing(Plan.NOTHING) if refused else Standing(Plan.CREATE, self._desired(pool))
        owner = controller_uid(found, "WorkerPool")
        if owner != pool.uid:
            if owner is not None or "deletionTimestamp" in found["metadata"]:
                return _problem(
                    Reason.DEPLOYMENT_NOT_FOUND,
                    f"Deployment {pool.name} belongs to an earlier pool of this name and is being deleted",
                    transient=True,
                )
            return _problem(
                Reason.FOREIGN_DEPLOYMENT,
                f"Deployment {pool.name} exists and was not made for this pool; it is left alone. Delete it, give"
                " the pool another name, or scale it with deploymentRef",
            )
        if "deletionTimestamp" in found["metadata"]:
            return _problem(Reason.DEPLOYMENT_NOT_FOUND, f"Deployment {pool.name} is being deleted", transient=True)
        if refused:
            return Standing(Plan.NOTHING)
        if applied_hash(found) != digest or self._edited(record, found, now):
            return Standing(Plan.APPLY, self._desired(pool))
        return Standing(Plan.NOTHING)

    async def create(self, pool: Pool, record: PoolRecord, desired: Object, replicas: int) -> bool:
        """Make the Deployment with its first number of replicas, which `own_replicas` is to make ours next.

        Return False when the server refused it, or when it was there already.
        """
        self._leadership.check()
        try:
            existing = await self._client.get(Kind.DEPLOYMENT, pool.namespace, pool.name)
        except ApiError as error:
            if not error.not_found:
                raise
        else:
            # The watch has not shown it yet: look again when it has.
            self._cache.put(Kind.DEPLOYMENT, existing)
            return False
        return await self._send(pool, record, with_replicas(desired, replicas)) is not None

    async def own_replicas(self, pool: Pool, replicas: int) -> None:
        """Apply the number of a Deployment that was just made a second time, to `/scale`.

        So that it is owned there when later applies of the template leave it out: an apply that gives a field up
        resets it to its default, one replica. Raises ApiError and UnreachableError.
        """
        # By force, against ourselves: an apply of 0 to the scale of what was applied with 0 counts as a change.
        await write_replicas(self._client, pool.namespace, pool.name, replicas, force=True)

    async def apply(self, pool: Pool, record: PoolRecord, found: Object, desired: Object) -> bool:
        """Apply the template without replicas; False when the server refused it."""
        self._leadership.check()
        if found["metadata"].get(REPLICAS_IN_TEMPLATE):
            replicas = int(found["spec"].get("replicas") or 0)
            await write_replicas(self._client, pool.namespace, pool.name, replicas, force=True)
        return await self._send(pool, record, desired) is not None

    def _desired(self, pool: Pool) -> Object:
        return deployment(_workload(pool), self._injection)

    def _wanted(self, pool: Pool, record: PoolRecord) -> str:
        """Return the hash of the Deployment as it should be, worked out once for a spec."""
        if record.wanted is None or record.wanted[0] is not pool.model:
            record.wanted = (pool.model, applied_hash(self._desired(pool)) or "")
        return record.wanted[1]

    async def _send(self, pool: Pool, record: PoolRecord, body: Object) -> Object | None:
        digest = applied_hash(body) or ""
        try:
            found = await self._client.apply(Kind.DEPLOYMENT, pool.namespace, pool.name, body, force=True)
        except ApiError as error:
            if not error.refused:
                record.apply_failed = error.message
                raise
            record.refusal = Refusal(digest, error.message)
            record.apply_failed = None
            _log.warning("template refused", namespace=pool.namespace, pool=pool.name, error=error.message)
            return None
        except UnreachableError as error:
            record.apply_failed = str(error)
            raise
        record.refusal, record.apply_failed = None, None
        self._cache.put(Kind.DEPLOYMENT, found)
        record.settled_template = _live_template(record, found)
        return found

    @staticmethod
    def _referenced(pool: Pool, around: Surroundings) -> Standing:
        name = pool.model.deployment_name
        found = around.deployment
        if found is None:
            return _problem(Reason.DEPLOYMENT_NOT_FOUND, f"Deployment {name} of deploymentRef does not exist")
        owner = controller_uid(found, "WorkerPool")
        if owner is not None:
            return _problem(Reason.CONFLICT, f"Deployment {name} belongs to another WorkerPool, which scales it")
        return Standing(Plan.NOTHING)

    @staticmethod
    def _edited(record: PoolRecord, found: Object, now: float) -> bool:
        """Whether somebody changed the live template since our last apply."""
        live = _live_template(record, found)
        if record.settled_template is None:
            record.settled_template = live
            return False
        if record.settled_template == live or now - record.settled_at < _REAPPLY_SECONDS:
            return False
        record.settled_at = now
        return True


def _workload(pool: Pool) -> Workload:
    spec = pool.obj["spec"]
    return Workload(
        namespace=pool.namespace,
        pool=pool.name,
        pool_uid=pool.uid,
        capabilities=pool.spec.capabilities,
        slots=pool.spec.slots_per_worker,
        grace_seconds=pool.model.spec.drain.grace_seconds,
        image=spec.get("image"),
        command=spec.get("command") or (),
        args=spec.get("args") or (),
        env=spec.get("env") or (),
        resources=spec.get("resources"),
        service_account=spec.get("serviceAccountName"),
        template=spec.get("template"),
    )


def _problem(reason: Reason, message: str, *, transient: bool = False) -> Standing:
    return Standing(Plan.WAIT, problem=Problem(reason, message, transient))


def _live_template(record: PoolRecord, found: Object) -> str:
    """Return the hash of a live template, worked out once for each copy of the Deployment."""
    if record.live_template is None or record.live_template[0] is not found:
        record.live_template = (found, _template_hash(found))
    return record.live_template[1]


def _template_hash(obj: Object) -> str:
    spec = {key: value for key, value in obj["spec"].items() if key != "replicas"}
    kept = obj["metadata"].get("annotations", {}).get(APPLIED_ANNOTATION)
    return hashlib.sha256(json.dumps([spec, kept], sort_keys=True).encode()).hexdigest()
