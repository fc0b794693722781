"""The pods of one simulated pool: starting, failing, restarting, draining, and dying with their node."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from leadsman_local.fleet import Fleet, Pod
from leadsman_local.scaler import ScaledPool
from leadsman_local.simulator.worker import VirtualWorker

if TYPE_CHECKING:
    from leadsman_local.simulator.world import World
    from leadsman_operator.api import WorkerPool


@dataclass(slots=True)
class Running:
    """What belongs to one pod."""

    node: int
    factor: float
    worker: VirtualWorker | None = None
    lives: int = 0
    dead_node: bool = False


@dataclass(slots=True)
class Nodes:
    """Pods fill one node after the other; a dead one takes no more."""

    pods_per_node: int
    load: dict[int, int] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)

    def place(self) -> int:
        """Return the node of a new pod."""
        for number in itertools.count():
            if number not in self.dead and self.load.get(number, 0) < self.pods_per_node:
                self.load[number] = self.load.get(number, 0) + 1
                return number
        raise AssertionError  # pragma: no cover - count has no end

    def leave(self, node: int) -> None:
        """Take a pod off its node."""
        self.load[node] -= 1

    def lose(self, count: int) -> set[int]:
        """Kill the fullest nodes and return them."""
        alive = [node for node, load in self.load.items() if load and node not in self.dead]
        lost = set(sorted(alive, key=lambda node: (-self.load[node], node))[:count])
        self.dead |= lost
        return lost


class SimulatedPool:
    """A pool's fleet with its pods' lives. `changed` is called when something a decision reads has changed."""

    def __init__(
        self, world: "World", model: "WorkerPool", nodes: Nodes, rng: Random, changed: Callable[[], None]
    ) -> None:
        self.world = world
        name = model.metadata.name
        numbers = itertools.count(1)
        self.scaled = ScaledPool(model, Fleet(name, lambda: f"{name}-{next(numbers)}"))
        self.running: dict[str, Running] = {}
        self._nodes = nodes
        self._rng = rng
        self._changed = changed
        cluster = world.scenario.cluster
        self._cluster = cluster
        grace = cluster.grace_seconds
        self.grace_seconds = float(model.spec.drain.grace_seconds if grace is None else grace)

    @property
    def fleet(self) -> Fleet:
        """Its pods."""
        return self.scaled.fleet

    def scale(self, replicas: int) -> None:
        """Write the replicas, and let the pods follow."""
        self.fleet.write(replicas)
        self.follow()

    def follow(self) -> None:
        """Make what is missing, end what is too many."""
        made, doomed = self.fleet.reconcile(self.world.agenda.now)
        for pod in made:
            slow = self._rng.random() < self._cluster.slow_workers
            self.running[pod.uid] = Running(self._nodes.place(), self._cluster.slow_factor if slow else 1.0)
            self._start(pod, self._cluster.startup_seconds.draw(self._rng))
        for pod in doomed:
            self._terminate(pod)
        if made or doomed:
            self._changed()

    def workers(self) -> list[VirtualWorker]:
        """Return the processes that run."""
        return [found.worker for found in self.running.values() if found.worker is not None]

    def follow_broker(self) -> None:
        """Let the workers follow the fences and cordons in force, and their pods' readiness after a while."""
        fences, cordons = self.world.broker.fences(), self.world.broker.cordons()
        for uid, found in list(self.running.items()):
            if found.worker is None:
                continue
            found.worker.follow(fenced=uid in fences, cordoned=uid in cordons)
            if self.fleet.pods[uid].ready == (uid in fences):
                self.world.agenda.after(self._cluster.readiness_seconds, lambda uid=uid: self._probe(uid))  # type: ignore[misc]

    def crash(self, worker: VirtualWorker) -> None:
        """End a process; its container is started again."""
        worker.die()
        pod = worker.pod
        found = self.running.get(pod.uid)
        if found is None or found.worker is not worker:
            return
        found.worker = None
        self._set_ready(pod, ready=False)
        if pod.terminating:
            self._remove(pod)
        else:
            self._start(pod, self._cluster.restart_seconds.draw(self._rng), again=True)

    def lose_nodes(self, nodes: set[int]) -> None:
        """Let everything on these nodes fall silent; the pods are made anew when it is noticed."""
        for uid, found in self.running.items():
            if found.node in nodes and not found.dead_node:
                found.dead_node = True
                if found.worker is not None:
                    found.worker.die()
                    found.worker = None
                pod = self.fleet.pods[uid]
                self.world.agenda.after(self._cluster.node_noticed_seconds, lambda pod=pod: self._noticed(pod))  # type: ignore[misc]

    def _noticed(self, pod: Pod) -> None:
        self._set_ready(pod, ready=False)
        self._remove(pod)

    def _start(self, pod: Pod, seconds: float, *, again: bool = False) -> None:
        fails = self._rng.random() < self._cluster.start_fails
        self.world.agenda.after(seconds, lambda: self._started(pod, fails=fails, again=again))

    def _started(self, pod: Pod, *, fails: bool, again: bool) -> None:
        found = self.running.get(pod.uid)
        if found is None or found.dead_node or pod.terminating:
            return
        if fails:
            pod.failing = True
            self._changed()
            self._start(pod, self._cluster.restart_seconds.draw(self._rng), again=again)
            return
        pod.failing = False
        found.lives += 1
        if not again and found.lives == 1:
            self.scaled.startup.add(self.world.agenda.now - pod.created_at)
            self.world.startup_measured()
        worker = found.worker = VirtualWorker(
            self.world, pod, self.scaled.spec, life=found.lives, factor=found.factor, gone=self._drained
        )
        self._set_ready(pod, ready=True)
        self.world.joined(worker)
        worker.ask()

    def _terminate(self, pod: Pod) -> None:
        found = self.running[pod.uid]
        self._set_ready(pod, ready=False)
        worker = found.worker
        if worker is None:
            self._remove(pod)
            return
        if worker.held:
            self.world.recorder.evicted_busy += 1
            worker.killed_at = self.world.agenda.now + self.grace_seconds
            self.world.agenda.after(self.grace_seconds, lambda: self._killed(pod))
        worker.drain()

    def _killed(self, pod: Pod) -> None:
        found = self.running.get(pod.uid)
        if found is not None and found.worker is not None:
            self.world.recorder.killed_busy += bool(found.worker.held)
            found.worker.die()
            found.worker = None
            self._remove(pod)

    def _drained(self, worker: VirtualWorker) -> None:
        worker.alive = False
        self._remove(worker.pod)

    def _remove(self, pod: Pod) -> None:
        found = self.running.pop(pod.uid, None)
        if found is None:
            return
        self._nodes.leave(found.node)
        self.fleet.remove(pod)
        self.world.recorder.pod_ended(self.world.agenda.now - pod.created_at)
        self.follow()
        self._changed()

    def _probe(self, uid: str) -> None:
        found, pod = self.running.get(uid), self.fleet.pods.get(uid)
        if found is None or pod is None or pod.terminating:
            return
        self._set_ready(pod, ready=found.worker is not None and not found.worker.fenced)

    def _set_ready(self, pod: Pod, *, ready: bool) -> None:
        if pod.set_ready(ready=ready):
            self._changed()
