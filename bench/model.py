"""The same workload for real in local mode and in the simulator: do they agree?

`make bench-model` prints how far apart oldest age, peak replicas and worker-seconds of the two are, and whether
that is within what is promised. Both play the same recorded arrivals and service times; the start-up time is what
local mode measured.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from dev_process import dev
from figures import Figures
from leadsman import Client
from leadsman_local.simulator.report import summary
from leadsman_local.simulator.scenario import load
from leadsman_local.simulator.world import simulate

WORKERS = 4
SAMPLE_SECONDS = 0.2
TOLERANCE_PERCENT = 15.0
IDLE_SECONDS = 10
BUSY_LOAD_PER_CORE = 2.0
"""With more that wants to run at once, real workers wait for a core, which the simulator knows nothing of."""

CAPABILITY = "apiVersion: leadsman.dev/v1alpha1\nkind: Capability\nmetadata: {name: step}\n"
POOL = f"""\
apiVersion: leadsman.dev/v1alpha1
kind: WorkerPool
metadata: {{name: step}}
spec:
  maxReplicas: {WORKERS}
  image: an/image
  scaling: {{targetTasksPerSlot: 1, scaleIn: {{idleSeconds: {IDLE_SECONDS}}}}}
"""
HANDLERS = """\
import asyncio
from leadsman import App

app = App()

@app.task("step")
async def step(ctx):
    await asyncio.sleep(ctx.payload)
"""


def workload() -> list[tuple[float, float]]:
    """Return arrival and service times: a burst that overruns the fleet, a pause, and a stream."""
    rng = Random(7)
    burst = [(0.0, rng.uniform(4, 8)) for _ in range(16)]
    stream = [(70.0 + 2.5 * number, rng.uniform(4, 8)) for number in range(12)]
    return burst + stream


def pool_status(path: Path) -> dict[str, Any]:
    """Return the pool's status; an empty one before there is any."""
    return dict(json.loads(path.read_text())["step"]) if path.exists() else {"replicas": 0}


async def play(url: str, tasks: list[tuple[float, float]], status: Path) -> dict[str, Any]:
    """Submit the tasks at their times; measure until the fleet is gone."""
    async with Client(url, namespace="default") as client:
        began = time.monotonic()
        ages: list[float] = []
        replicas: list[int] = []
        waiting = list(tasks)
        ids: list[str] = []
        while True:
            now = time.monotonic() - began
            while waiting and waiting[0][0] <= now:
                answer = await client.submit("step", waiting.pop(0)[1])
                if answer.id is None:
                    raise RuntimeError(f"refused: {answer.code}: {answer.reason}")
                ids.append(answer.id)
            stats = await client.stats()
            ages.append(max((queue.oldest_age_seconds or 0.0 for queue in stats.capabilities), default=0.0))
            replicas.append(pool_status(status)["replicas"])
            if (
                not waiting
                and not replicas[-1]
                and not any(queue.ready + queue.delayed + queue.leased for queue in stats.capabilities)
            ):
                break
            await asyncio.sleep(SAMPLE_SECONDS)
        seconds = time.monotonic() - began
        views = [await client.get(identifier) for identifier in ids]
    return {
        "oldest_age_s": max(ages),
        "peak_replicas": max(replicas),
        "worker_seconds": sum(replicas) * seconds / len(replicas),
        "completed": sum(view.state == "completed" for view in views),
        "others": [
            (view.state.value, [entry.event for entry in view.history])
            for view in views
            if view.state != "completed"
        ],
        "startup": pool_status(status)["lastDecision"]["startupSeconds"],
    }


def for_real(folder: Path, tasks: list[tuple[float, float]]) -> dict[str, Any]:
    """Run it in local mode."""
    (folder / "pools.yaml").write_text(f"{CAPABILITY}---\n{POOL}")
    (folder / "handlers.py").write_text(HANDLERS)
    with dev(folder, "--app", "handlers:app") as run:
        return asyncio.run(play(run.url, tasks, folder / ".leadsman" / "status.json"))


def simulated(folder: Path, tasks: list[tuple[float, float]], startup_seconds: float) -> dict[str, Any]:
    """Run it in the simulator."""
    lines = [json.dumps({"at": at, "capability": "step", "seconds": seconds}) for at, seconds in tasks]
    (folder / "trace.jsonl").write_text("\n".join(lines))
    (folder / "scenario.yaml").write_text(
        "durationSeconds: 300\nsampleSeconds: 0.2\nmanifests: [pools.yaml]\narrivals: [{trace: trace.jsonl}]\n"
        f"cluster: {{startupSeconds: {startup_seconds}, readinessSeconds: 0.25}}\n"
        "scaler: {everySeconds: 0.1}\n"
    )
    found = summary(simulate(load(folder / "scenario.yaml")))
    return {
        "oldest_age_s": found["oldest_age_seconds"]["p100"],
        "peak_replicas": found["workers"]["peak_replicas"],
        "worker_seconds": found["workers"]["worker_seconds"],
        "completed": found["tasks"]["completed"],
    }


def main() -> int:
    """Run both and compare; 1 when they do not agree."""
    tasks = workload()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        real = for_real(folder, tasks)
        virtual = simulated(folder, tasks, real["startup"])
    apart = {
        figure: round(100 * (virtual[figure] / real[figure] - 1), 1)
        for figure in ("oldest_age_s", "worker_seconds")
    }
    agree = (
        all(abs(percent) <= TOLERANCE_PERCENT for percent in apart.values())
        and abs(virtual["peak_replicas"] - real["peak_replicas"]) <= 1
        and virtual["completed"] == real["completed"] == len(tasks)
    )
    report = Figures("model", tolerance_percent=TOLERANCE_PERCENT, startup_s=real["startup"]).report
    for figure, unit in (
        ("oldest_age_s", "s"),
        ("worker_seconds", "s"),
        ("peak_replicas", "1"),
        ("completed", "1"),
    ):
        report(f"real_{figure}", real[figure], unit)
        report(f"simulated_{figure}", virtual[figure], unit)
    for figure, percent in apart.items():
        report(f"{figure.removesuffix('_s')}_apart_percent", percent, "%")
    valid = agree or os.getloadavg()[0] <= BUSY_LOAD_PER_CORE * (os.cpu_count() or 1)
    report("agree", int(agree), "1 when all are within the tolerance", not_completed=real["others"], valid=valid)
    if not valid:
        print("not valid: the machine is too busy for the real run; try again when it is quiet", file=sys.stderr)
    return 0 if agree or not valid else 1


if __name__ == "__main__":
    sys.exit(main())
