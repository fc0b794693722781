"""Carries out which workers are to get nothing new; decided in `leadsman_operator.scaling.cordons`."""

import asyncio

import structlog

from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.errors import BrokerError, BrokerUnreachableError
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.look import Look
from leadsman_operator.reconcile.replicas import Leadership
from leadsman_operator.scaling.cordons import Cordon, CordonAction, cordon_busy, next_look
from leadsman_operator.scaling.scale_in import ScaleInView

_log = structlog.get_logger(__name__)

_BROKER_SECONDS = 5.0
"""For one call; a broker that is slower is asked again."""


def cordon_operation(pool_uid: str) -> str:
    """Return the id of a pool's cordons: the same for every leader, so that a new one knows them as its pool's."""
    return f"{pool_uid}.cordon"


class CordonKeeper:
    """Sets, renews and lifts the cordons of one pool at a time."""

    def __init__(
        self, broker: BrokerClient, leadership: Leadership, events: EventRecorder, metrics: Metrics
    ) -> None:
        self._broker = broker
        self._leadership = leadership
        self._events = events
        self._metrics = metrics

    async def keep(self, look: Look, view: ScaleInView) -> float | None:
        """Bring the cordons to what they should be; return in how many seconds to be called by itself."""
        loop, record = asyncio.get_running_loop(), look.record
        before = record.cordons
        record.cordons, actions = cordon_busy(before, view, loop.time())
        if actions:
            self._leadership.check()
            await asyncio.gather(*(self._carry_out(action) for action in actions))
        fresh = record.cordons.asked - before.asked - view.cordons.keys()
        if fresh:
            self._tell(look, fresh)
        again = next_look(record.cordons, loop.time())
        return None if again is None else max(0.0, again - loop.time())

    async def _carry_out(self, action: CordonAction) -> None:
        try:
            async with asyncio.timeout(_BROKER_SECONDS):
                if isinstance(action, Cordon):
                    await self._broker.cordon(action.operation, action.pod_uids, action.ttl_seconds)
                else:
                    await self._broker.uncordon(action.pod_uids, action.operation)
        except (BrokerError, BrokerUnreachableError, TimeoutError) as error:
            _log.warning("cordons not changed", operation=action.operation, error=str(error))

    def _tell(self, look: Look, fresh: frozenset[str]) -> None:
        pool = look.pool
        self._metrics.cordons.labels(*pool.key).inc(len(fresh))
        leases: dict[str, int] = {}
        for worker in look.observation.workers:
            leases[worker.pod_uid] = leases.get(worker.pod_uid, 0) + worker.leases
        named = [f"{pod.name} ({leases.get(pod.uid, 0)})" for pod in look.observation.pods if pod.uid in fresh]
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        note = f"no new tasks for {', '.join(named[:5])}{more}, until they can go; {look.decision.summary}"
        self._events.record(pool.obj, EventReason.CORDONED, note, action="ScaleIn")
