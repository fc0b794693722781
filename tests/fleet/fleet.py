"""The kubelet of a made-up node: pods that the real scheduler puts there run, become ready, drain and go."""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp

from leadsman.wire.leases import WorkerState

from .broker import BrokerClient
from .kube import DEPLOYMENTS, NAMESPACES, PODS, POOLS, REPLICA_SETS, Kube, KubeError
from .node import Node
from .pod_status import failing, readiness, running
from .waiting import happens_within, until
from .worker import Assignment, Book, Pace, Worker

PODS_OF_ALL = "/api/v1/pods"
_CLOSE_SECONDS = 60.0
# How old the news of a deletion may be.
_NEWS_SECONDS = 0.5
# A worker that connects at once is published as running and ready in one patch.
_CONNECTS_SECONDS = 0.5


@dataclass(frozen=True)
class DeletedPod:
    """A worker pod at the moment in which its deletion was seen."""

    uid: str
    name: str
    namespace: str
    pool: str
    held: tuple[str, ...]
    """Task ids of the leases that its worker held, or let go of so shortly before that the news may have been late.

    Only a fence proves that a lease ended before the deletion and not between it and the news.
    """
    fenced: bool
    """Whether the broker had told its worker that it is fenced."""
    started: bool
    """Whether its worker had begun to run."""
    at: float
    """Monotonic seconds."""


@dataclass
class Behaviour:
    """How the node and its pods behave: seconds, drawn anew each time."""

    startup: Callable[[random.Random], float] = lambda rng: rng.uniform(0.05, 0.3)
    """From the binding of a pod to its worker's first call."""
    probe: Callable[[random.Random], float] = lambda rng: rng.uniform(0.0, 0.2)
    """From a change of a worker's readiness to the kubelet's next look at it."""
    stop: Callable[[random.Random], float] = lambda rng: rng.uniform(0.0, 0.2)
    """How long a pod without a worker takes to end."""
    pace: Pace = field(default_factory=Pace)
    fails: Callable[[dict[str, Any]], str | None] = lambda _pod: None
    """Why a pod cannot start (a waiting reason such as ImagePullBackOff), or None."""


class _Pod:
    """One pod on the node and the task that plays it."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        meta = manifest["metadata"]
        self.manifest = manifest
        self.uid: str = meta["uid"]
        self.namespace: str = meta["namespace"]
        self.path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self.worker: Worker | None = None
        self.terminating = asyncio.Event()
        self.look = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.recorded = False


class Fleet:
    """A node and everything on it. A context manager; at its end it deletes the namespaces it was given.

    Pods whose environment names a pool get a worker that talks to the broker; all others just run.
    """

    def __init__(
        self,
        kube: Kube,
        broker_url: str,
        *,
        namespaces: tuple[str, ...] = (),
        seed: int = 0,
        behaviour: Behaviour | None = None,
    ) -> None:
        self.behaviour = behaviour or Behaviour()
        self.book = Book()
        self.deleted: list[DeletedPod] = []
        self.rng = random.Random(seed)
        self.node = Node(kube, f"fleet-{secrets.token_hex(3)}")
        self.errors: list[BaseException] = []
        self._kube = kube
        self._broker = BrokerClient(broker_url)
        self._namespaces = namespaces
        self._pods: dict[str, _Pod] = {}
        self._background: list[asyncio.Task[None]] = []
        self._closing = False
        self._stack = contextlib.AsyncExitStack()
        self._addresses = 0

    @property
    def workers(self) -> dict[str, Worker]:
        """The living workers by pod UID."""
        return {uid: pod.worker for uid, pod in self._pods.items() if pod.worker}

    @property
    def busy_deletions(self) -> list[DeletedPod]:
        """Pods that were told to go while they held a lease: what must never happen in a scale-in."""
        return [pod for pod in self.deleted if pod.held]

    async def silence(self, pod_uid: str) -> None:
        """Crash a worker: it says nothing more to anyone, while its pod still looks healthy."""
        worker = self._pods[pod_uid].worker
        assert worker is not None, "this pod has no worker"
        await worker.kill()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._broker)
            stack.push_async_callback(self.node.remove)
            await self.node.register()
            stack.push_async_callback(self._stop)
            self._background = [asyncio.create_task(self.node.beat()), asyncio.create_task(self._follow())]
            stack.push_async_callback(self._empty_namespaces)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        await self._stack.aclose()
        if self.errors and error is None:
            raise ExceptionGroup("the fleet itself failed", [e for e in self.errors if isinstance(e, Exception)])

    async def _stop(self) -> None:
        tasks = [*self._background, *(pod.task for pod in self._pods.values() if pod.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _empty_namespaces(self) -> None:
        """Delete what makes pods, then the pods, then the namespaces, which a pod that nobody ends would keep."""
        for worker in list(self.workers.values()):
            await worker.kill()
        for name in self._namespaces:
            for collection in (POOLS, DEPLOYMENTS, REPLICA_SETS, PODS):
                await self._kube.delete(collection.format(namespace=name), grace_seconds=0)
            await self._kube.delete(f"{NAMESPACES}/{name}")
        await until("the pods' end", self._empty, seconds=_CLOSE_SECONDS)

    async def _empty(self) -> bool:
        return not any(pod.namespace in self._namespaces for pod in self._pods.values())

    async def _follow(self) -> None:
        try:
            async for kind, manifest in self._kube.watch(
                PODS_OF_ALL, fieldSelector=f"spec.nodeName={self.node.name}"
            ):
                self._observe(kind, manifest)
        except Exception as error:
            self.errors.append(error)
            raise

    def _observe(self, kind: str, manifest: dict[str, Any]) -> None:
        uid = manifest["metadata"]["uid"]
        pod = self._pods.get(uid)
        if kind == "DELETED":
            if pod:
                self._record(pod)
                self._pods.pop(uid)
                pod.terminating.set()
                if pod.task:
                    pod.task.cancel()
            return
        if pod is None:
            pod = self._pods[uid] = _Pod(manifest)
            pod.task = asyncio.create_task(self._play(pod))
        pod.manifest = manifest
        if "deletionTimestamp" in manifest["metadata"]:
            self._record(pod)
            pod.terminating.set()
            pod.look.set()

    def _record(self, pod: _Pod) -> None:
        """Write down, once, what the pod's worker held when its deletion was seen."""
        if pod.recorded or self._closing:
            return
        assignment = _assignment(pod.manifest)
        if assignment is None:
            return
        pod.recorded = True
        worker = pod.worker
        self.deleted.append(
            DeletedPod(
                uid=pod.uid,
                name=assignment.pod_name,
                namespace=assignment.namespace,
                pool=assignment.pool,
                held=_held(worker) if worker else (),
                fenced=bool(worker and worker.state is WorkerState.FENCED),
                started=worker is not None,
                at=time.monotonic(),
            )
        )

    async def _play(self, pod: _Pod) -> None:
        try:
            await self._live(pod)
            await self._end(pod)
        except (KubeError, aiohttp.ClientError, TimeoutError) as error:
            if not self._closing and pod.uid in self._pods:
                self.errors.append(error)
        finally:
            if pod.worker:
                await pod.worker.kill()

    async def _live(self, pod: _Pod) -> None:
        """Start the pod and keep its Ready condition true to its worker until it is told to go."""
        reason = self.behaviour.fails(pod.manifest)
        if reason:
            await self._status(pod, failing(pod.manifest, reason))
            await pod.terminating.wait()
            return
        if await happens_within(pod.terminating, self.behaviour.startup(self.rng)):
            return
        assignment = _assignment(pod.manifest)
        address = self._address()
        if assignment is None:
            await self._status(pod, running(pod.manifest, address, ready=True))
            await pod.terminating.wait()
            return
        worker = pod.worker = Worker(
            assignment, self._broker, self.book, self.rng, self.behaviour.pace, pod.look.set
        )
        worker.start()
        published: bool | None = None
        await happens_within(pod.look, _CONNECTS_SECONDS)
        while not pod.terminating.is_set():
            pod.look.clear()
            if published is not None:
                await asyncio.sleep(self.behaviour.probe(self.rng))
            ready = worker.ready
            if ready != published and not pod.terminating.is_set():
                body = running(pod.manifest, address, ready=ready)
                await self._status(pod, body if published is None else readiness(body))
                published = ready
            if worker.ready == published:
                await pod.look.wait()

    async def _end(self, pod: _Pod) -> None:
        """Drain, then say that the containers are gone; at the end of the grace the worker is killed."""
        if pod.worker and not self._closing:
            grace = pod.manifest["metadata"].get("deletionGracePeriodSeconds", 30)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pod.worker.drain(), grace)
        elif not self._closing:
            await asyncio.sleep(self.behaviour.stop(self.rng))
        await self._kube.delete(pod.path, grace_seconds=0, uid=pod.uid)

    async def _status(self, pod: _Pod, body: dict[str, Any]) -> None:
        """Patch a pod's status; one that is gone by now is no error."""
        try:
            await self._kube.patch(
                f"{pod.path}/status",
                {"metadata": {"uid": pod.uid}, **body},
                "application/strategic-merge-patch+json",
            )
        except KubeError as error:
            if error.code not in {404, 409}:
                raise

    def _address(self) -> str:
        self._addresses += 1
        return f"10.250.{self._addresses // 250 % 250}.{self._addresses % 250 + 1}"


def _held(worker: Worker) -> tuple[str, ...]:
    now = tuple(held.lease.task.id for held in worker.held.values())
    if now or worker.state is WorkerState.FENCED or worker.last_ended is None:
        return now
    task_id, ended_at = worker.last_ended
    return (task_id,) if time.monotonic() - ended_at < _NEWS_SECONDS else ()


def _assignment(manifest: dict[str, Any]) -> Assignment | None:
    """The worker a pod is made for, read from the environment that a pool's pods are given."""
    meta = manifest["metadata"]
    given = {
        entry["name"]: entry.get("value", "")
        for container in manifest["spec"]["containers"]
        for entry in container.get("env", [])
    }
    if "LEADSMAN_POOL" not in given:
        return None
    return Assignment(
        pod_uid=meta["uid"],
        pod_name=meta["name"],
        namespace=given.get("LEADSMAN_NAMESPACE") or meta["namespace"],
        pool=given["LEADSMAN_POOL"],
        capabilities=tuple(given["LEADSMAN_CAPABILITIES"].split(",")),
        slots=int(given["LEADSMAN_SLOTS"]),
    )
