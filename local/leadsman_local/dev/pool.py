"""One pool of local mode: its fleet and the processes that stand for its pods."""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path

from leadsman_local.dev.manifests import Program
from leadsman_local.dev.processes import WorkerProcess
from leadsman_local.dev.telling import Telling
from leadsman_local.fleet import Fleet, Pod
from leadsman_local.scaler import ScaledPool
from leadsman_operator.api import WorkerPool

PROBE_SECONDS = 0.25
_MEMORY_EVERY = 4
"""Probes from one look at the memory to the next."""
_FIRST_RESTART_SECONDS = 0.5
_LAST_RESTART_SECONDS = 30.0
_FAILING_AFTER = 3
"""Starts in a row that came to nothing before a pod counts as one that cannot start."""


class DevPool:
    """Keeps as many processes as the fleet has pods. `changed` is called when a decision may come out otherwise."""

    def __init__(
        self, model: WorkerPool, program: Program, *, namespace: str, broker_url: str, folder: Path,
        telling: Telling, changed: Callable[[], None],
    ) -> None:  # fmt: skip
        name = model.metadata.name
        self.scaled = ScaledPool(model, Fleet(name, lambda: f"{name}-{secrets.token_hex(5)}"))
        self.program = program
        self._namespace = namespace
        self._broker_url = broker_url
        self._logs = folder / "logs"
        self._telling = telling
        self._changed = changed
        self._processes: dict[str, WorkerProcess] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._failed_starts: dict[str, int] = {}
        self.closing = False

    @property
    def fleet(self) -> Fleet:
        """Its pods."""
        return self.scaled.fleet

    @property
    def failing(self) -> dict[str, int]:
        """Why processes cannot start, and how many."""
        count = sum(pod.failing for pod in self.fleet.pods.values())
        return {"CrashLoopBackOff": count} if count else {}

    def roster(self) -> list[dict[str, object]]:
        """Return its workers as JSON can hold them: which process is which pod."""
        return [
            {
                "name": pod.name,
                "uid": pod.uid,
                "pid": self._processes[pod.uid].pid if pod.uid in self._processes else None,
                "ready": pod.ready,
                "terminating": pod.terminating,
            }
            for pod in self.fleet.pods.values()
        ]

    def follow(self) -> None:
        """Start what is missing, tell what is too much to drain."""
        made, doomed = self.fleet.reconcile(asyncio.get_running_loop().time())
        for pod in made:
            self._lives[pod.uid] = asyncio.create_task(self._live(pod))
        for pod in doomed:
            self._drain(pod)
        if made or doomed:
            self._changed()

    def replace(self, program: Program) -> None:
        """Run another program, or new code, from now on: each process drains, another takes its place."""
        self.program = program
        for pod in list(self.fleet.pods.values()):
            if not pod.terminating:
                pod.terminating = True
                self._drain(pod)
        self.follow()

    async def close(self) -> None:
        """Drain all and wait until the last has ended."""
        self.closing = True
        for pod in list(self.fleet.pods.values()):
            pod.terminating = True
            self._drain(pod)
        await asyncio.gather(*self._lives.values())

    def kill(self) -> None:
        """End every process at once."""
        for process in self._processes.values():
            process.kill()

    def _drain(self, pod: Pod) -> None:
        pod.set_ready(ready=False)
        process = self._processes.get(pod.uid)
        if process is not None:
            process.drain()

    async def _live(self, pod: Pod) -> None:
        """Run a pod: its process, and the next one when that dies, until the pod is to end."""
        try:
            pause = _FIRST_RESTART_SECONDS
            while self._is_wanted(pod):
                was_ready = await self._run(pod)
                if not self._is_wanted(pod):
                    break
                failed = 0 if was_ready else self._failed_starts.get(pod.uid, 0) + 1
                self._failed_starts[pod.uid] = failed
                pod.failing = failed >= _FAILING_AFTER
                self._changed()
                await asyncio.sleep(pause)
                pause = _FIRST_RESTART_SECONDS if was_ready else min(_LAST_RESTART_SECONDS, pause * 2)
        finally:
            self._failed_starts.pop(pod.uid, None)
            self._lives.pop(pod.uid, None)
            self.fleet.remove(pod)
            if not self.closing:
                self.follow()
                self._changed()

    @staticmethod
    def _is_wanted(pod: Pod) -> bool:
        return not pod.terminating

    async def _run(self, pod: Pod) -> bool:
        """Run one process to its end; return whether it was ever ready."""
        spec = self.scaled.spec
        env = {
            "LEADSMAN_BROKER_URL": self._broker_url,
            "LEADSMAN_NAMESPACE": self._namespace,
            "LEADSMAN_POOL": spec.name,
            "LEADSMAN_CAPABILITIES": ",".join(spec.capabilities),
            "LEADSMAN_SLOTS": str(spec.slots_per_worker),
            "LEADSMAN_POD_UID": pod.uid,
            "LEADSMAN_POD_NAME": pod.name,
            "LEADSMAN_DRAIN_SECONDS": str(self.scaled.model.spec.drain.grace_seconds),
        }
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{pod.name}.log"
        try:
            process = await WorkerProcess.start(self.program, env, log)
        except OSError as error:
            self._telling.event(spec.name, "FailedStart", f"{pod.name}: {error}")
            return False
        self._processes[pod.uid] = process
        self._changed()
        if pod.terminating:
            process.drain()
        watch = asyncio.create_task(self._watch(pod, process))
        try:
            code = await process.process.wait()
        finally:
            watch.cancel()
            del self._processes[pod.uid]
        pod.set_ready(ready=False)
        if process.killed_for_memory:
            limit = process.program.memory_bytes
            self._telling.event(
                spec.name, "OOMKilled", f"{pod.name} held more than its {limit} bytes; it starts again"
            )
        elif code != 0 and not pod.terminating:
            self._telling.event(spec.name, "Crashed", f"{pod.name} ended with {code}: {last_line(log)} ({log})")
        return process.was_ready

    async def _watch(self, pod: Pod, process: WorkerProcess) -> None:
        for number in range(1 << 62):
            ready = await process.ready() and not pod.terminating
            if ready and pod.readiness_changes == 0:
                self.scaled.startup.add(asyncio.get_running_loop().time() - pod.created_at)
            if ready:
                process.was_ready = True
                pod.failing = False
            if pod.set_ready(ready=ready):
                self._changed()
            if number % _MEMORY_EVERY == 0 and not await asyncio.to_thread(process.within_memory):
                return
            await asyncio.sleep(PROBE_SECONDS)


def last_line(log: Path) -> str:
    """Return the last thing a process said."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
