"""Telling the broker the rules of each namespace's queues, and people what became of them."""

import asyncio
import datetime as dt
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from leadsman.reasons import Reason
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.stats import CapabilityStats
from leadsman_operator.api import Capability, CapabilityStatus, ConditionStatus, ConditionType, capability_config
from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.errors import BrokerError, BrokerUnreachableError
from leadsman_operator.broker.state import BrokerState
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.cache import Cache, Key, key_of
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.ending import ENDING_SECONDS, UNSURE_SECONDS, EndingNamespaces
from leadsman_operator.kube.errors import ApiError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.resources import Kind
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.conditions import Verdict, said
from leadsman_operator.reconcile.pools import PoolIndex
from leadsman_operator.reconcile.replicas import Leadership
from leadsman_operator.reconcile.status import condition_list, patch_of, rounded
from leadsman_operator.scaling.startup import told_to_broker

Object = dict[str, Any]

_log = structlog.get_logger(__name__)

_STATUS_SECONDS = 60.0
RESYNC_SECONDS = 150.0
"""A namespace in which nothing happens is looked at as often; its figures are written at most once a minute."""


@dataclass(slots=True)
class _Pushed:
    """What the broker was told of a namespace."""

    epoch: str | None
    configs: tuple[CapabilityConfig, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """A Capability's rules as they were read last, and what they depend on."""

    uid: str
    generation: int
    startup_seconds: float
    max_slots: int | None
    config: CapabilityConfig

    def holds(self, obj: Object, startup_seconds: float, max_slots: int | None) -> bool:
        """Whether reading them again would give the same."""
        meta = obj["metadata"]
        return (self.uid, self.generation, self.startup_seconds, self.max_slots) == (
            meta["uid"],
            meta.get("generation") or 0,
            startup_seconds,
            max_slots,
        )


@dataclass(slots=True)
class _Told:
    """What a Capability's status said last, and when."""

    uid: str
    written: Object
    at: float
    announced: str | None
    seen: tuple[object, ...] | None = None
    """What it was made from, if nothing of that is still to be written."""


class CapabilityController:
    """Pushes one namespace's rules at a time, always the whole set, and tells about one Capability at a time.

    The two are apart so that the statuses of a thousand queues do not hold up the rules of a new one. `tell_about`
    queues a Capability for `tell`.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        cache: Cache,
        index: PoolIndex,
        broker: BrokerClient,
        state: BrokerState,
        events: EventRecorder,
        leadership: Leadership,
        metrics: Metrics,
        ending: EndingNamespaces,
        startup_seconds: Callable[[Key], float | None],
        tell_about: Callable[[Key], None],
        scope: Callable[[str], bool],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._cache = cache
        self._index = index
        self._broker = broker
        self._state = state
        self._events = events
        self._leadership = leadership
        self._metrics = metrics
        self._ending = ending
        self._startup_seconds = startup_seconds
        self._tell_about = tell_about
        self._scope = scope
        self._wall_clock = wall_clock
        self._generation = 0
        self._pushed: dict[str, _Pushed] = {}
        self._read: dict[Key, _Read] = {}
        self._told: dict[Key, _Told] = {}
        self._refusals: dict[str, str] = {}

    def lead(self) -> None:
        """Begin to lead: tell the broker everything again."""
        self._pushed.clear()
        self._told.clear()
        self._refusals.clear()

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a Capability that no longer exists."""
        self._read.pop(key, None)
        told = self._told.pop(key, None)
        if told is not None:
            self._events.forget(told.uid)

    def namespaces(self) -> set[str]:
        """Every namespace that has capabilities, here or at the broker."""
        here = {key_of(obj)[0] for obj in self._cache.all(Kind.CAPABILITY)}
        there = {
            namespace
            for (namespace, _), stats in self._state.capabilities.items()
            if stats.configured and self._scope(namespace)
        }
        return here | there

    async def look(self, namespace: str) -> float | None:
        """Push the namespace's rules if the broker may not have them, and have the statuses looked at.

        Returns as the work queue wants it: None when the namespace has nothing (more) to look at.
        """
        if not self._leadership.holds():
            return None
        found = [obj for obj in self._cache.all(Kind.CAPABILITY) if key_of(obj)[0] == namespace]
        if not found and namespace not in self._pushed and namespace not in self.namespaces():
            self._refusals.pop(namespace, None)
            return None
        try:
            await self._push(namespace, found)
        except BrokerError as error:
            self._refusals[namespace] = str(error)
            raise
        else:
            self._refusals.pop(namespace, None)
            if not found:
                self._pushed.pop(namespace, None)
        finally:
            for obj in found:
                if self._is_news(obj):
                    self._tell_about(key_of(obj))
        return math.inf if found else None

    async def _push(self, namespace: str, found: list[Object]) -> None:
        configs = tuple(self._config(namespace, obj) for obj in sorted(found, key=key_of))
        pushed = self._pushed.get(namespace)
        if pushed is not None and pushed.epoch == self._state.epoch and pushed.configs == configs:
            return
        epoch = self._state.epoch
        reply = None
        for _ in range(2):
            self._leadership.check()
            generation = self._next_generation()
            reply = await self._broker.put_capabilities(namespace, generation, configs)
            if reply.applied:
                break
            # Our clock is behind the one that the last leader used: go on from its number.
            self._generation = max(self._generation, reply.generation)
        if reply is None or not reply.applied:
            raise BrokerUnreachableError(f"the broker holds a newer set of rules for {namespace}")
        _log.info("rules pushed", namespace=namespace, generation=reply.generation, capabilities=len(configs))
        self._pushed[namespace] = _Pushed(epoch, configs)

    def _next_generation(self) -> int:
        """Return a number above all that this and any earlier leader used: milliseconds of the wall clock."""
        self._generation = max(self._generation + 1, int(self._wall_clock() * 1000))
        return self._generation

    def _config(self, namespace: str, obj: Object) -> CapabilityConfig:
        """Read one Capability, anew only if it or its pools changed: a namespace is looked at for each of many."""
        key = key_of(obj)
        pools = self._index.serving(*key)
        startup = told_to_broker(self._startup_seconds(pool.key) for pool in pools)
        max_slots = self._index.max_slots(*key)
        known = self._read.get(key)
        if known is not None and known.holds(obj, startup, max_slots):
            return known.config
        try:
            config = capability_config(Capability.model_validate(obj), startup, max_slots)
        except ValidationError as error:
            _log.warning("capability cannot be read", namespace=namespace, name=key[1], error=str(error))
            config = CapabilityConfig(name=key[1], startup_seconds=startup, max_slots=max_slots)
        meta = obj["metadata"]
        self._read[key] = _Read(meta["uid"], meta.get("generation") or 0, startup, max_slots, config)
        return config

    def _is_news(self, obj: Object) -> bool:
        """Whether a status may say something new: a namespace is looked at for each of hundreds of queues."""
        told = self._told.get(key_of(obj))
        return told is None or told.uid != obj["metadata"]["uid"] or told.seen != self._seen(obj)

    def _seen(self, obj: Object) -> tuple[object, ...]:
        """Return all that a Capability's status is made from."""
        namespace, name = key = key_of(obj)
        return (
            obj["metadata"].get("generation"),
            namespace in self._pushed,
            self._refusals.get(namespace),
            tuple(pool.name for pool in self._index.serving(namespace, name)),
            self._state.capabilities.get(key),
        )

    async def tell(self, key: Key) -> float | None:
        """Write the status of one Capability if it is worth it; return in how many seconds to look again."""
        obj = self._cache.get(Kind.CAPABILITY, *key)
        if obj is None or not self._leadership.holds():
            return None
        if self._ending.ends(key[0]):
            return ENDING_SECONDS
        uid, now = obj["metadata"]["uid"], asyncio.get_running_loop().time()
        told = self._told.get(key)
        if told is None or told.uid != uid:
            written = obj.get("status") or {}
            told = self._told[key] = _Told(uid, written, now, _ready_word(written))
        seen, verdict = self._seen(obj), self._verdict(obj)
        if _has_lost_its_pools(told.written, verdict):
            self._ending.ask(key[0])
        if self._ending.unsure(key[0]):
            return UNSURE_SECONDS
        after = self._status(obj, verdict, told.written)
        told.seen = None
        if after == told.written:
            told.seen = seen
            return None
        decisive = (after["conditions"], after.get("observedGeneration"))
        if decisive == (told.written.get("conditions"), told.written.get("observedGeneration")):
            wait = told.at + _STATUS_SECONDS - now
            if wait > 0:
                return wait
        self._leadership.check()
        body = {"metadata": {"uid": uid}, "status": patch_of(told.written, after)}
        try:
            await self._client.merge(Kind.CAPABILITY, *key, body, subresource="status")
        except ApiError as error:
            if error.not_found or error.conflict:
                self.forget(key)
                return None
            raise
        told.written, told.at, told.seen = after, now, seen
        self._metrics.status_writes.labels(Kind.CAPABILITY.plural).inc()
        # It may have gone while its status was written.
        if self._cache.get(Kind.CAPABILITY, *key) is not None:
            self._announce(obj, told, verdict)
        return None

    def _announce(self, obj: Object, told: _Told, verdict: Verdict) -> None:
        if verdict.word == told.announced:
            return
        told.announced = verdict.word
        good = verdict.status is ConditionStatus.TRUE
        reason = EventReason.READY if good else verdict.reason
        self._events.record(obj, reason, verdict.message, warning=not good)

    def _verdict(self, obj: Object) -> Verdict:
        namespace, name = key_of(obj)
        kind, no = ConditionType.READY, ConditionStatus.FALSE
        refused = self._refusals.get(namespace)
        if refused is not None:
            return Verdict(kind, no, Reason.RULES_REFUSED, f"the broker refuses the rules: {refused}")
        if namespace not in self._pushed:
            return Verdict(kind, no, Reason.SIGNAL_LOST, "the broker has not been told the rules yet")
        pools = [pool.name for pool in self._index.serving(namespace, name)]
        if not pools:
            text = f"no WorkerPool in this namespace lists {name}; its tasks wait"
            return Verdict(kind, no, Reason.NO_POOL_SERVES, text)
        text = f"the broker has the rules; served by {', '.join(pools[:5])}"
        return Verdict(kind, ConditionStatus.TRUE, Reason.AS_EXPECTED, text)

    def _status(self, obj: Object, verdict: Verdict, before: Mapping[str, Any]) -> Object:
        generation = int(obj["metadata"].get("generation") or 0)
        stats: CapabilityStats | None = self._state.capabilities.get(key_of(obj))
        pushed = verdict.reason not in {Reason.RULES_REFUSED, Reason.SIGNAL_LOST}
        status = CapabilityStatus(
            observed_generation=generation if pushed else before.get("observedGeneration"),
            ready_tasks=None if stats is None else rounded(stats.ready),
            delayed_tasks=None if stats is None else rounded(stats.delayed),
            leased_tasks=None if stats is None else rounded(stats.leased),
            dead_tasks=None if stats is None else rounded(stats.dead),
        )
        found: Object = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        found["conditions"] = condition_list([verdict], generation, before, dt.datetime.now(dt.UTC))
        return found


def _ready_word(status: Mapping[str, Any]) -> str | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == ConditionType.READY.value:
            return said(condition.get("status"), condition.get("reason"))
    return None


def _has_lost_its_pools(status: Mapping[str, Any], verdict: Verdict) -> bool:
    served = said(ConditionStatus.TRUE, Reason.AS_EXPECTED)
    return verdict.reason is Reason.NO_POOL_SERVES and _ready_word(status) == served
