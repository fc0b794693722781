"""The story: a batch, two fleets that grow, a worker that is killed, every task done, two fleets gone."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from demo import watching
from demo.batch import FULL, Batch
from demo.forwarding import port_forward
from demo.ground import Ground, Images, kill_container
from demo.installation import AGENTS, POOLS, SYSTEM, Installation
from demo.outcome import Outcome, enqueue_to_scale_ms, lost, peak
from demo.pods import Pod
from demo.programs import DemoError
from demo.record import Record, Totals
from demo.screen import Screen
from leadsman import Client
from leadsman.errors import LeadsmanError, NotFoundError
from leadsman.wire.stats import WorkerStats
from leadsman.wire.tasks import TaskView

_HEARD_SECONDS = 60.0
_SAMPLE_SECONDS = 0.25
_WORK_SECONDS = 240.0
_ZERO_SECONDS = 180.0
_T = TypeVar("_T")
_KILLS = 3
"""How often a worker is killed at most: one that ends its task in the very moment of the kill reclaims nothing."""


@dataclass
class Story:
    """One run of it, on a cluster or in local mode."""

    batch: Batch
    kill: Callable[[Pod], str]
    """SIGKILL what runs in a pod, and return how, in words."""
    screen: Screen
    record: Record
    client: Client
    evicted: set[str] = field(default_factory=set)
    """Names of pods that were told to end while the broker still knew a lease of theirs."""
    told: list[str] = field(default_factory=list)

    async def tell(self) -> Outcome:
        """Run it and return what was counted."""
        before = await self._totals()
        tasks = self.batch.tasks()
        self.screen.start_clock()
        self.record.begin()
        results = await self.client.submit_many(tasks)
        ids = [result.id for result in results if result.accepted and result.id]
        self.screen.tell(
            "batch",
            "",
            f"{len(ids)} of {len(tasks)} tasks accepted: {self.batch.browser} browser, {self.batch.llm} llm",
        )
        held = await self._kill_a_busy_worker(before, ids)
        await self._until("every task is done", lambda: self._done(before, len(ids)), _WORK_SECONDS)
        self.screen.snapshot(self.record)
        self.screen.tell("batch", "", "every queue is empty; the fleets leave when their idle window is over")
        await self._until("both fleets are at zero", self._at_zero, _ZERO_SECONDS)
        seconds = self.screen.clock()
        views = {identifier: await self._view(identifier) for identifier in ids}
        after = await self._totals()
        self._retell(held, views)
        return Outcome(
            submitted=len(ids),
            completed=sum(view is not None and view.state == "completed" for view in views.values()),
            lost=lost({identifier: view.state if view else None for identifier, view in views.items()}),
            reclaimed=after.reclaimed - before.reclaimed,
            busy_workers_evicted=len(self.evicted),
            peak_replicas=peak(self.record.changes),
            final_replicas=max(sum(self.record.replicas.values()), len(self.record.pods)),
            enqueue_to_scale_ms=enqueue_to_scale_ms(self.record.changes, POOLS),
            seconds=round(seconds, 1),
        )

    async def ready(self) -> None:
        """Wait until both sides were heard: nothing that follows may be missed."""
        if not await self._until(
            "the broker and the API server are heard",
            lambda: set(POOLS) <= self.record.replicas.keys() and set(POOLS) <= self.record.capabilities.keys(),
            _HEARD_SECONDS,
        ):
            raise DemoError("the pools' Deployments or the broker's queues did not appear; see the operator's log")

    async def follow_statistics(self) -> None:
        """Keep the broker's side of the record up to date."""
        while True:
            self.record.statistics(await self.client.stats())
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def pod_left(self, pod: Pod) -> None:
        """Ask the broker, at the moment a worker pod is told to end, whether it holds a lease."""
        leases = sum(one.leases for one in (await self.client.stats()).workers if one.pod_uid == pod.uid)
        if leases:
            self.evicted.add(pod.name)
        self.screen.tell(
            "scale", pod.pool, f"{pod.name} leaves; it holds {leases or 'no'} lease{'s' * (leases > 1)}"
        )

    async def _kill_a_busy_worker(self, before: Totals, ids: list[str]) -> list[str]:
        """SIGKILL a worker in the middle of a task; return the ids of the tasks it held."""
        for _ in range(_KILLS):
            victim = await self._busy_for_a_while(before, ids)
            if victim is None:
                return []
            worker, pod, held = victim
            how = await asyncio.to_thread(self.kill, pod)
            self.screen.tell("kill", pod.pool, f"{pod.name}, which holds {', '.join(held)}: {how}")
            self.told.append(f"Killed {pod.name} in the middle of {', '.join(held)}: {how}.")
            if await self._lease_ran_out(before, worker.id):
                self.screen.tell("task", "browser", "its lease ran out: the task is back in its queue")
                return held
        return []

    async def _busy_for_a_while(self, before: Totals, ids: list[str]) -> tuple[WorkerStats, Pod, list[str]] | None:
        """Find a browser worker that has been at one task for two pages: its checkpoint is there to go on from."""
        deadline = time.monotonic() + _WORK_SECONDS
        while time.monotonic() < deadline:
            found = await self._until("a browser worker is busy", lambda: self._victim(before), _WORK_SECONDS)
            if found is None:
                return None
            worker, pod = found
            held = await self._held(worker, ids)
            await asyncio.sleep(2.2 * self.batch.seconds_per_page)
            if held and held == await self._held(worker, ids):
                return worker, pod, held
        return None

    async def _held(self, worker: WorkerStats, ids: list[str]) -> list[str]:
        views = await asyncio.gather(*(self.client.get(identifier) for identifier in ids))
        return [view.id for view in views if view.state == "leased" and view.worker == worker.id]

    def _victim(self, before: Totals) -> tuple[WorkerStats, Pod] | None:
        """Return a busy browser worker in a running pod, once the fleet has finished something."""
        if Totals.of_queues(self.record.capabilities.values()).completed == before.completed:
            return None
        for worker in self.record.present_workers("browser"):
            pod = self.record.pods[worker.pod_uid]
            if worker.leases and pod.running and not pod.deleting:
                return worker, pod
        return None

    async def _lease_ran_out(self, before: Totals, worker: str) -> bool:
        """Wait until something was reclaimed; False when the killed worker had just settled what it held."""

        def look() -> str | None:
            if Totals.of_queues(self.record.capabilities.values()).reclaimed > before.reclaimed:
                return "reclaimed"
            known = self.record.workers.get(worker)
            return "nothing held" if known is None or not known.leases else None

        return await self._until("the killed worker's lease runs out", look, _WORK_SECONDS) == "reclaimed"

    def _done(self, before: Totals, wanted: int) -> bool:
        queues = self.record.capabilities.values()
        completed = Totals.of_queues(queues).completed - before.completed
        return completed >= wanted or not any(queue.ready + queue.delayed + queue.leased for queue in queues)

    def _at_zero(self) -> bool:
        return not any(self.record.replicas.values()) and not self.record.pods

    def _retell(self, held: list[str], views: dict[str, TaskView | None]) -> None:
        """Say in words what became of the killed worker's tasks."""
        for identifier in held:
            view = views.get(identifier)
            if view is not None:
                steps = [f"{entry.event} from {entry.worker}" for entry in view.history if entry.worker]
                steps.append(f"{view.state} at delivery {view.attempts.deliveries} with {view.result}")
                self.told.append(f"{identifier}: {', '.join(steps)}")

    async def _view(self, identifier: str) -> TaskView | None:
        try:
            return await self.client.get(identifier)
        except NotFoundError:
            return None

    async def _totals(self) -> Totals:
        return Totals.of(await self.client.stats())

    async def _until(self, what: str, check: Callable[[], _T], seconds: float) -> _T | None:
        """Look until `check` returns something true and return it; None, and a line about it, when time is up."""
        deadline = time.monotonic() + seconds
        while not (found := check()):
            if time.monotonic() > deadline:
                self.screen.tell("batch", "", f"gave up after {seconds:.0f} s waiting until {what}")
                return None
            await asyncio.sleep(0.05)
        return found


async def perform(
    ground: Ground, images: Images, installation: Installation, screen: Screen
) -> tuple[Outcome, list[str]]:
    """Tell the story on an installation; return what was counted, and what became of the killed worker's tasks."""
    record = Record(clock=screen.clock, tell=screen.tell)
    async with (
        port_forward(ground.kubectl, ground.kubeconfig, SYSTEM, "service/leadsman-broker", 8080) as url,
        Client(url, namespace=AGENTS, token=installation.token(AGENTS, "default")) as client,
    ):
        story = Story(FULL, lambda pod: kill_container(ground, images, pod), screen, record, client)

        def watch(kind: str) -> AsyncIterator[tuple[str, Any]]:
            return watching.objects(ground.kubectl, ground.kubeconfig, AGENTS, kind)

        return await follow(
            story,
            watching.follow_deployments(watch("deployments"), record),
            watching.follow_pods(watch("pods"), record, story.pod_left),
            watching.follow_events(watch("events.events.k8s.io"), record),
        )


async def follow(story: Story, *watches: Coroutine[Any, Any, None]) -> tuple[Outcome, list[str]]:
    """Tell a story while the watches fill its record. Raises DemoError with the first thing that failed."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(watch) for watch in (*watches, story.follow_statistics())]
            await story.ready()
            with story.screen.following(story.record):
                outcome = await story.tell()
            for task in tasks:
                task.cancel()
    except ExceptionGroup as errors:
        if errors.split((DemoError, LeadsmanError))[1] is not None:
            raise
        # Whatever the first of them was, the rest follow from it.
        raise DemoError(str(errors.exceptions[0])) from errors
    return outcome, story.told
