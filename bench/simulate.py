"""How fast the simulator is, how right its answers are, and how soon local mode does a first task.

`make bench-simulate` prints `day_100k_tasks_s`, `events_per_s`, `first_task_s` and the comparisons.
"""

import argparse
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from figures import Figures
from leadsman_local.simulator.report import summary
from leadsman_local.simulator.scenario import Plan, load
from leadsman_local.simulator.world import simulate

ROOT = Path(__file__).resolve().parents[1]
DAY = ROOT / "bench" / "scenarios" / "day.yaml"
LOAD = ROOT / "bench" / "scenarios" / "load_24h.yaml"
LEAN = {
    "pools.agents.scaling.scaleIn.idleSeconds": 60,
    "pools.agents.scaling.targetTasksPerSlot": 20,
    "pools.agents.scaling.targetAgeSeconds": 120,
}
"""Ours, told that a task may wait for two minutes; with KEDA's defaults tasks wait for up to twenty."""
SEEDS = (1, 2, 3, 4, 5)
KEDA = {"scaler": {"by": "KedaHpa"}}
LARGEST_FIXED = 40
MMC_RUNS = 8
MMC_WARM_UP = 500
"""First waits of a run, which begins empty, that do not count."""
_UNITS = {
    "worker_hours": "h",
    "completed": "tasks",
    "unfinished": "tasks",
    "busy_workers_told_to_end": "workers",
    "busy_workers_killed": "workers",
    "done_in_vain": "share of the work",
}

POOLS = """\
apiVersion: leadsman.dev/v1alpha1
kind: Capability
metadata: {name: hello}
---
apiVersion: leadsman.dev/v1alpha1
kind: WorkerPool
metadata: {name: hello}
spec: {maxReplicas: 2, image: an/image}
"""
HANDLERS = """\
from leadsman import App

app = App()

@app.task("hello")
async def hello(ctx):
    return "done"
"""


report = Figures("simulate").report


def speed() -> None:
    """Play a day of 100,000 tasks on up to 200 workers."""
    plan = load(DAY)
    wall, cpu = time.perf_counter(), time.process_time()
    world = simulate(plan)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = summary(world)
    conditions = {
        "completed": found["tasks"]["completed"],
        "peak_replicas": found["workers"]["peak_replicas"],
        "worker_hours": found["workers"]["worker_hours"],
    }
    report("day_100k_tasks_s", wall, "s", **conditions)
    report("day_100k_tasks_cpu_s", cpu, "s", **conditions)
    report("events_per_s", world.agenda.events / wall, "1/s", **conditions)


def comparison() -> None:
    """Play the 24 hours of load with Leadsman, with KEDA and an autoscaler, and with fixed sizes."""
    plan = load(LOAD)
    keda = _figures(plan, KEDA)
    ours = {"leadsman": _figures(plan, {}), "leadsman_lean": _figures(plan, LEAN)}
    fixed: dict[int, dict[str, Any]] = {}
    sizes = {f"best_fixed_for_{name}": _best_fixed(plan, fixed, row) for name, row in ours.items()}
    sizes["fixed_one_smaller"] = sizes["best_fixed_for_leadsman_lean"] - 1
    rows = {"keda_hpa": keda, **ours, **{name: _fixed(plan, fixed, size) for name, size in sizes.items()}}
    for scaler, figures in rows.items():
        for metric, value in figures.items():
            conditions = {"scaler": scaler, "size": sizes.get(scaler), "scenario": LOAD.name}
            report(f"load_24h_{metric}", value, _UNITS.get(metric, "s"), **conditions)
    beside = [("leadsman", "keda_hpa"), ("leadsman", "best_fixed_for_leadsman"), ("leadsman_lean", "keda_hpa")]
    beside += [("leadsman_lean", "best_fixed_for_leadsman_lean"), ("leadsman_lean", "fixed_one_smaller")]
    for name, other in beside:
        _saved(name, rows[name], other, rows[other], seed=plan.scenario.seed)
    for seed in SEEDS[1:]:
        lean, there = (_figures(plan, {**values, "seed": seed}) for values in (LEAN, KEDA))
        _saved("leadsman_lean", lean, "keda_hpa", there, seed=seed)


def _saved(name: str, ours: dict[str, Any], other: str, theirs: dict[str, Any], **conditions: Any) -> None:
    ages = {"age_p95_s": ours["oldest_age_p95_s"], "age_p95_there_s": theirs["oldest_age_p95_s"]}
    percent = 100 * (1 - ours["worker_hours"] / theirs["worker_hours"])
    report("load_24h_hours_saved_percent", percent, "%", scaler=name, than=other, **ages, **conditions)


def _best_fixed(plan: Plan, played: dict[int, dict[str, Any]], ours: dict[str, Any]) -> int:
    """Return the smallest size whose oldest task is not older than ours; what was played is kept."""
    low, high = 1, LARGEST_FIXED
    while low < high:
        size = (low + high) // 2
        if _fixed(plan, played, size)["oldest_age_p95_s"] <= ours["oldest_age_p95_s"]:
            high = size
        else:
            low = size + 1
    return low


def _fixed(plan: Plan, played: dict[int, dict[str, Any]], size: int) -> dict[str, Any]:
    if size not in played:
        played[size] = _figures(plan, {"scaler": {"by": "Fixed", "replicas": size}})
    return played[size]


def _figures(plan: Plan, values: dict[str, Any]) -> dict[str, Any]:
    found = summary(simulate(plan.with_values(values) if values else plan))
    ages = found["oldest_age_seconds"]
    return {
        "worker_hours": found["workers"]["worker_hours"],
        "oldest_age_p50_s": ages["p50"],
        "oldest_age_p95_s": ages["p95"],
        "oldest_age_p99_s": ages["p99"],
        "oldest_age_max_s": ages["p100"],
        "completed": found["tasks"]["completed"],
        "unfinished": found["tasks"]["unfinished"],
        "busy_workers_told_to_end": found["workers"]["busy_told_to_end"],
        "busy_workers_killed": found["workers"]["busy_killed"],
        "done_in_vain": found["cost"]["wasted_share"],
    }


def queueing() -> None:
    """Compare the mean wait of M/M/c with the Erlang C formula."""
    for slots, rate in ((2, 1.2), (4, 2.4)):
        waits = []
        for seed in range(1, MMC_RUNS + 1):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "mmc.yaml"
                path.write_text(
                    f"seed: {seed}\ndurationSeconds: 12000\ncapabilities: {{c: {{}}}}\n"
                    f"pools: {{c: {{maxReplicas: {slots}}}}}\n"
                    "work: {c: {seconds: {exponential: {mean: 1}}}}\n"
                    f"arrivals: [{{capability: c, poisson: {{perMinute: {rate * 60}}}, fromSeconds: 5}}]\n"
                    "cluster: {startupSeconds: 0}\nscaler: {by: Fixed}\nsampleSeconds: 100\n"
                )
                waited = simulate(load(path)).recorder.waits["c"][MMC_WARM_UP:]
                waits.append(sum(waited) / len(waited))
        simulated, formula = sum(waits) / len(waits), erlang_c_wait(rate, slots)
        conditions = {"slots": slots, "per_s": rate, "simulated_s": simulated, "formula_s": formula}
        report("mmc_wait_error_percent", 100 * (simulated / formula - 1), "%", runs=MMC_RUNS, **conditions)


def erlang_c_wait(rate: float, slots: int) -> float:
    """Mean wait of M/M/c, mean service time one second."""
    top = rate**slots / math.factorial(slots) * slots / (slots - rate)
    return top / (sum(rate**k / math.factorial(k) for k in range(slots)) + top) / (slots - rate)


def first_task() -> None:
    """Install the built wheel with the extra into a clean venv, then time one command until a task is completed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
             "--wheel-dir", str(folder), str(ROOT)], check=True,
        )  # fmt: skip
        (wheel,) = folder.glob("leadsman-*.whl")
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        installing = time.perf_counter()
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[local]"], check=True)
        installed = time.perf_counter()
        (folder / "pools.yaml").write_text(POOLS)
        (folder / "handlers.py").write_text(HANDLERS)
        env = {key: value for key, value in os.environ.items() if not key.startswith(("LEADSMAN_", "PYTHONPATH"))}
        leadsman = str(python.with_name("leadsman"))
        with subprocess.Popen(
            [leadsman, "dev", "-f", "pools.yaml", "--app", "handlers:app", "--port", "0"],
            cwd=folder, env={**env, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            url = ""
            for line in process.stdout or ():
                if match := re.match(r"broker +(\S+)", line):
                    url = match[1]
                if line.startswith("submit"):
                    break
            submitted = [leadsman, "submit", "hello", "--wait", "--broker-url", url]
            subprocess.run(submitted, check=True, env=env, cwd=folder, stdout=subprocess.DEVNULL)
            done = time.perf_counter()
            process.send_signal(signal.SIGINT)
            for _ in process.stdout or ():
                pass
        report("first_task_s", done - installed, "s")
        report("install_s", installed - installing, "s")


PARTS = {"speed": speed, "comparison": comparison, "queueing": queueing, "first_task": first_task}


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    for name in parser.parse_args().parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
