"""One pool `browser`, its workers, and the moves that the restart and signal tests interrupt."""

from dataclasses import dataclass

from leadsman.wire.tasks import TaskSubmit

from .broker import BrokerClient
from .fleet import Fleet
from .history import ReplicaHistory
from .manifests import capability, pool
from .pools import Pools
from .waiting import until

POOL = "browser"
IDLE_SECONDS = 1
COST = "controller.kubernetes.io/pod-deletion-cost"


@dataclass
class Scene:
    """What happens to the pool, and what is to be seen of it."""

    pools: Pools
    client: BrokerClient
    fleet: Fleet
    history: ReplicaHistory

    async def create(self, **spec: object) -> None:
        """Make the queue and the pool, with one task for each slot and a short idle window."""
        quick = {"targetTasksPerSlot": 1, "scaleIn": {"idleSeconds": IDLE_SECONDS}}
        await self.pools.apply(capability(POOL), pool(POOL, **{"scaling": quick, **spec}))

    async def open(self, **spec: object) -> None:
        """Make them and wait until the pool is in service at its minimum."""
        await self.create(**spec)
        await self.pools.until_ready(POOL)

    async def submit(self, count: int, **payload: object) -> None:
        """Enqueue tasks in one call; see `Pace.service` for the payload."""
        await self.client.submit(self.pools.namespace, *[TaskSubmit(capability=POOL, payload=payload)] * count)

    async def grow_then_idle(self, *, busy: int, idle: int) -> None:
        """Some workers take tasks that end when `finish_held` is called, the others soon have nothing to do."""
        await self.open(minReplicas=1)
        await self.submit(busy, hold=True)
        await self.submit(idle, seconds=2)
        await self.until_size(busy + idle)

    def finish_held(self) -> None:
        """Let the tasks with `hold` end."""
        self.fleet.book.let_go.set()

    async def until_size(self, size: int, *, seconds: float = 60) -> None:
        """Wait until `spec.replicas` is this."""
        await self.history.until(
            f"{size} replicas", lambda sizes: sizes.replicas(POOL)[-1:] == [size], seconds=seconds
        )

    async def until_shrinking(self) -> None:
        """Wait until `spec.replicas` falls."""
        await self.history.until("a lower size", lambda sizes: sizes.scale_ins(POOL) > 0)

    async def until_fenced(self) -> None:
        """Wait until a worker is fenced."""
        await until("a fence", self._fenced, seconds=60, every_seconds=0.02)

    async def until_unfenced(self) -> None:
        """Wait until no worker is fenced."""

        async def look() -> bool:
            return not await self._fenced()

        await until("the end of every fence", look, seconds=60)

    async def _fenced(self) -> bool:
        return bool((await self.client.stats()).fences)

    async def ready_replicas(self) -> int:
        """How many pods the Deployment calls ready."""
        deployment = await self.pools.deployment(POOL)
        ready: int = (deployment or {}).get("status", {}).get("readyReplicas", 0)
        return ready

    async def until_ready_replicas(self, least: int = 0, most: int = 1_000_000) -> None:
        """Wait until the number of ready pods lies between these."""

        async def look() -> bool:
            return least <= await self.ready_replicas() <= most

        await until(f"{least} to {most} ready pods", look, seconds=60, every_seconds=0.02)

    async def until_completed(self, count: int) -> None:
        """Wait until this many tasks are done."""

        async def look() -> bool:
            return len(self.fleet.book.completed) >= count

        await until(f"{count} completions", look, seconds=60)

    async def until_held(self, count: int) -> None:
        """Wait until workers hold this many leases."""

        async def look() -> bool:
            return sum(len(worker.held) for worker in self.fleet.workers.values()) == count

        await until(f"{count} leases in workers' hands", look, seconds=60)

    async def until_settled(self, size: int) -> None:
        """Wait until the pool has this size and every worker is in service: no fence, no mark, no pod too many."""

        async def look() -> str:
            return "" if await self.unsettled(size) else "settled"

        try:
            await until(f"{size} workers in service", look, seconds=90)
        except AssertionError as error:
            raise AssertionError(f"{error}; {await self.unsettled(size)}") from None

    async def unsettled(self, size: int) -> str:
        """What keeps the pool from having this size with every worker in service; empty when nothing does."""
        replicas = self.history.replicas(POOL)
        if replicas[-1] != size:
            return f"sizes so far {replicas}"
        pods = await self.pools.pods(POOL)
        if len(pods) != size or await self.ready_replicas() != size:
            return f"{len(pods)} pods, {await self.ready_replicas()} of them ready"
        marked = [
            pod["metadata"]["name"]
            for pod in pods
            # Busy pods have a high one, so that whoever else lowers the scale spares them.
            if int(pod["metadata"].get("annotations", {}).get(COST, 0)) < 0
        ]
        if marked:
            return f"spared pods with a victim's mark: {marked}"
        living = {pod["metadata"]["uid"] for pod in pods}
        fences = [fence for fence in (await self.client.stats()).fences if fence.pod_uid in living]
        if fences:
            return f"fenced workers: {fences}"
        unready = [worker.assignment.pod_name for worker in self.fleet.workers.values() if not worker.ready]
        return f"workers out of service: {unready}" if unready else ""

    def sizes_since(self, size: int) -> list[int]:
        """The sizes from the first time the pool had this one."""
        replicas = self.history.replicas(POOL)
        return replicas[replicas.index(size) :]

    def assert_only_shrank_from(self, size: int) -> None:
        """From that size on every change lowered the number, and no busy worker went."""
        seen = self.sizes_since(size)
        assert seen == sorted(seen, reverse=True), f"the size flapped: {seen}"
        assert not self.fleet.busy_deletions

    def assert_everything_was_done_once(self) -> None:
        """No task was lost and none was given to two workers."""
        book = self.fleet.book
        assert book.completed == dict.fromkeys(book.started, 1)
        assert set(book.started.values()) == {1}
        assert not book.lost
