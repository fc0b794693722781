"""The same story without a cluster: `leadsman dev` runs the broker, the scaler and the workers on this machine.

What a cluster's watches tell comes from what local mode says: its events, and its list of worker processes.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from demo.batch import FULL, QUICK
from demo.ground import AGENTS_FOLDER
from demo.installation import AGENTS, POOLS
from demo.outcome import Outcome
from demo.pods import Pod
from demo.programs import DemoError
from demo.record import Record
from demo.screen import Screen
from demo.story import Story, follow
from leadsman import Client

_LOOK_SECONDS = 0.05
_STOP_SECONDS = 30.0
_LINE = re.compile(r"\d\d:\d\d:\d\d +(\S+) +(\S+) +(.*)")
_MOVE = re.compile(r"(\d+) -> (\d+)")
_SHORTER = {"seconds: 10": "seconds: 3", "idleSeconds: 15": "idleSeconds: 3"}
"""What `--quick` makes of the examples."""


async def perform(screen: Screen, *, quick: bool) -> tuple[Outcome, list[str]]:
    """Tell the story in local mode; return what was counted, and what became of the killed worker's tasks."""
    with TemporaryDirectory(prefix="leadsman-demo-") as name:
        folder = Path(name)
        for file in ("capabilities.yaml", "pools.yaml"):
            text = (AGENTS_FOLDER / file).read_text()
            for before, after in _SHORTER.items() if quick else ():
                text = text.replace(before, after)
            (folder / file).write_text(text)
        async with _local_mode(folder) as (url, output), Client(url, namespace=AGENTS) as client:
            record = Record(clock=screen.clock, tell=screen.tell)
            workers = Workers(folder / "data" / "workers.json")
            story = Story(QUICK if quick else FULL, workers.kill, screen, record, client)
            for pool in POOLS:
                record.deployment(pool, 0, 0)
            return await follow(
                story, follow_events(output, record, workers), workers.follow(record, story.pod_left)
            )


class Workers:
    """The worker processes that local mode lists in `workers.json`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listed: dict[str, list[dict[str, Any]]] = {}

    async def follow(self, record: Record, left: Callable[[Pod], Awaitable[None]]) -> None:
        """Note every worker, and call `left` at once when one begins to leave."""
        known: dict[str, Pod] = {}
        while True:
            pods = self._read()
            for pod in [*pods.values(), *(pod for uid, pod in known.items() if uid not in pods)]:
                if record.pod(pod, gone=pod.uid not in pods):
                    await left(pod)
            for pool in POOLS:
                record.ready[pool] = self.ready(pool)
            known = pods
            await asyncio.sleep(_LOOK_SECONDS)

    def ready(self, pool: str) -> int:
        """Return how many of a pool's workers are ready."""
        return sum(one["ready"] for one in self._listed.get(pool, []))

    def kill(self, pod: Pod) -> str:
        """SIGKILL a worker with all its children, as the end of a container does."""
        pid = next((one["pid"] for one in self._listed.get(pod.pool, []) if one["uid"] == pod.uid), None)
        if pid is None:
            return "it had ended by itself"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return f"SIGKILL to its process {pid}"

    def _read(self) -> dict[str, Pod]:
        with contextlib.suppress(FileNotFoundError):
            self._listed = json.loads(self._path.read_text())
        return {one["uid"]: _pod(pool, one) for pool, listed in self._listed.items() for one in listed}


def _pod(pool: str, one: dict[str, Any]) -> Pod:
    return Pod(
        name=one["name"],
        namespace=AGENTS,
        uid=one["uid"],
        pool=pool,
        node="",
        container_id="",
        deleting=one["terminating"],
        running=one["pid"] is not None and one["ready"],
    )


async def follow_events(output: asyncio.StreamReader, record: Record, workers: Workers) -> None:
    """Note every change of a fleet's size and show the events. Raises DemoError when local mode ends."""
    said = "it said nothing"
    async for line in _lines(output):
        said = line
        event = _LINE.fullmatch(line)
        if event is None:
            continue
        pool, reason, note = event.groups()
        move = _MOVE.match(note)
        if reason in {"ScaledOut", "ScaledIn"} and move is not None:
            record.deployment(pool, int(move[2]), workers.ready(pool))
        if record.begun:
            record.tell("event", pool, f"{reason}: {note}")
    raise DemoError(f"local mode has ended: {said}")


@asynccontextmanager
async def _local_mode(folder: Path) -> AsyncIterator[tuple[str, asyncio.StreamReader]]:
    """Run `leadsman dev`; yield the broker's URL and what else it prints. All of it is gone on the way out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEADSMAN_")}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(AGENTS_FOLDER), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "leadsman.cli", "dev", "--app", "handlers:app", "--no-reload", "--port", "0"),
        *("-f", "capabilities.yaml", "-f", "pools.yaml", "--data", "data", "--namespace", AGENTS),
        cwd=folder,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for the demo, which then ends this in its order
    )
    assert process.stdout is not None
    try:
        yield await _where(process.stdout), process.stdout
    finally:
        await _end(process)


async def _where(output: asyncio.StreamReader) -> str:
    said = "it said nothing"
    async for line in _lines(output):
        said = line
        if found := re.match(r"broker +(\S+)", line):
            return found[1]
    raise DemoError(f"local mode did not start: {said}")


async def _lines(output: asyncio.StreamReader) -> AsyncIterator[str]:
    while line := await output.readline():
        if text := line.decode(errors="replace").strip():
            yield text


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let the workers finish; a second signal ends them at once."""
    for _ in range(2):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await process.communicate()
                return
    process.kill()
    await process.wait()
