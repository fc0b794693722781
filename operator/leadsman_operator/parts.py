"""What one operator process is made of, wired together. Nothing in here runs by itself."""

from collections.abc import Callable

from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.state import BrokerState
from leadsman_operator.feed import Feed
from leadsman_operator.kube.cache import Cache, Key
from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.election import Always, Election
from leadsman_operator.kube.ending import EndingNamespaces
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.manifest import Injection
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.act import Actor
from leadsman_operator.reconcile.capabilities import RESYNC_SECONDS, CapabilityController
from leadsman_operator.reconcile.controller import PoolController
from leadsman_operator.reconcile.cordons import CordonKeeper
from leadsman_operator.reconcile.observe import Observer
from leadsman_operator.reconcile.pools import PoolIndex
from leadsman_operator.reconcile.replicas import ReplicaWriter
from leadsman_operator.reconcile.reporting import Reporter
from leadsman_operator.reconcile.scale_in import ScaleInDriver
from leadsman_operator.reconcile.workload import Workloads
from leadsman_operator.scaling.model import SIGNAL_STALE_SECONDS
from leadsman_operator.scaling.startup import PodBirths
from leadsman_operator.settings import OperatorSettings
from leadsman_operator.workqueue import Cause, WorkQueue

POOL_RESYNC_SECONDS = 600.0
"""No pool goes without a look for longer, though nothing was heard that concerns it."""


class Parts:
    """The cache and what reads it, the three work queues and what they call, and the feed that fills them."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        client: KubeClient,
        lease_client: KubeClient,
        broker: BrokerClient,
        leadership_changed: Callable[[bool], None],
    ) -> None:
        self.client, self.broker = client, broker
        self.metrics = Metrics()
        self.cache, self.index = Cache(), PoolIndex()
        self.state = BrokerState(stale_seconds=SIGNAL_STALE_SECONDS)
        self.leadership = _leadership(settings, lease_client, leadership_changed)
        self.ending = EndingNamespaces(client)
        self.events = EventRecorder(
            client, settings.identity, ending=self.ending, dropped=self.metrics.events_dropped.inc
        )
        births = PodBirths()
        self.controller = self._controller(settings, births)
        self.capabilities = CapabilityController(
            client=client,
            cache=self.cache,
            index=self.index,
            broker=broker,
            state=self.state,
            events=self.events,
            leadership=self.leadership,
            metrics=self.metrics,
            ending=self.ending,
            startup_seconds=self.controller.startup_seconds,
            tell_about=self._tell_about,
            scope=lambda namespace: not settings.namespaces or namespace in settings.namespaces,
        )
        self.pools: WorkQueue[Key] = WorkQueue(
            self.controller.look,
            resync_seconds=POOL_RESYNC_SECONDS,
            on_look=self._looking,
            on_failure=self._look_failed,
        )
        self.namespaces: WorkQueue[str] = WorkQueue(
            self.capabilities.look, at_once=16, resync_seconds=RESYNC_SECONDS
        )
        self.statuses: WorkQueue[Key] = WorkQueue(self.capabilities.tell, at_once=8)
        self.feed = Feed(
            cache=self.cache,
            index=self.index,
            state=self.state,
            births=births,
            controller=self.controller,
            pools=self.pools,
            namespaces=self.namespaces,
            forget_capability=self.capabilities.forget,
        )

    def start_looking(self) -> None:
        """Let the queues run, and look at everything once."""
        self.pools.start()
        self.namespaces.start()
        self.statuses.start()
        self.feed.everything()
        for namespace in self.capabilities.namespaces():
            self.namespaces.add(namespace)

    async def stop_looking(self) -> None:
        """Stop the queues; when this returns nothing of them runs."""
        await self.pools.stop()
        await self.namespaces.stop()
        await self.statuses.stop()

    def _controller(self, settings: OperatorSettings, births: PodBirths) -> PoolController:
        observer = Observer(self.cache, self.state, births)
        writer = ReplicaWriter(self.client, self.cache, self.leadership, self.events, self.metrics)
        injection = Injection(broker_url=settings.worker_broker_url, audience=settings.audience)
        workloads = Workloads(self.client, self.cache, self.leadership, injection)
        scale_in = ScaleInDriver(
            client=self.client,
            cache=self.cache,
            broker=self.broker,
            leadership=self.leadership,
            writer=writer,
            events=self.events,
            cordons=CordonKeeper(self.broker, self.leadership, self.events, self.metrics),
            metrics=self.metrics,
        )
        actor = Actor(
            client=self.client,
            cache=self.cache,
            observer=observer,
            workloads=workloads,
            writer=writer,
            scale_in=scale_in,
            events=self.events,
            leadership=self.leadership,
            metrics=self.metrics,
        )
        return PoolController(
            cache=self.cache,
            index=self.index,
            observer=observer,
            workloads=workloads,
            actor=actor,
            reporter=Reporter(self.client, self.leadership, self.events, self.metrics),
            events=self.events,
            leadership=self.leadership,
            metrics=self.metrics,
            ending=self.ending,
            conflict_quiet_seconds=settings.conflict_quiet_seconds,
        )

    def _tell_about(self, key: Key) -> None:
        self.statuses.add(key)

    def _looking(self, cause: Cause) -> None:
        self.metrics.looks.labels(cause.value).inc()

    def _look_failed(self, key: Key, error: Exception) -> None:
        self.metrics.look_failures.labels(*key).inc()


def _leadership(
    settings: OperatorSettings, client: KubeClient, changed: Callable[[bool], None]
) -> Always | Election:
    if not settings.leader_election:
        return Always()
    return Election(
        client,
        namespace=settings.lease_namespace,
        name=settings.lease_name,
        identity=settings.identity,
        changed=changed,
    )
