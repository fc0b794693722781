"""One worker process against a real broker: `python bench/worker.py`, one JSON object a line.

The broker, the worker and this program share the machine's cores, and the broker writes with `synchronous=FULL`.
Every line carries the conditions; the worker's processor time per task holds on a busy machine too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Self

_TESTS = str(Path(__file__).resolve().parents[1] / "tests")
sys.path.insert(0, _TESTS)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_TESTS, os.environ.get("PYTHONPATH")]))

from broker_process import BrokerProcess, eventually  # noqa: E402  found through the line above
from figures import Figures  # noqa: E402
from leadsman import SyncClient, TaskSubmit  # noqa: E402
from worker_process import Journal, WorkerProcess  # noqa: E402

HANDLERS = """
from leadsman import App

app = App()

@app.task("noop")
async def noop(ctx):
    return None
"""
IMPORTS = (
    ("import_ms", "import leadsman", 250),
    ("import_handlers_ms", "from leadsman import App, Context, Retry", 250),
    ("import_client_ms", "from leadsman import Client", None),
)
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


def import_ms(statement: str, rounds: int) -> float:
    """The median of what a statement adds to the start of a bare interpreter."""

    def once(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    return 1000 * statistics.median(once(statement) - once("pass") for _ in range(rounds))


class Bench:
    """A broker, and workers started one after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._broker = BrokerProcess(folder / "broker")
        self._started = 0
        (folder / "bench_handlers.py").write_text(HANDLERS)

    def __enter__(self) -> Self:
        self._broker.__enter__()
        request = urllib.request.Request(
            f"{self._broker.url}/v1/namespaces/default/capabilities",
            json.dumps({"generation": 1, "capabilities": [{"name": "noop"}]}).encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=30):
            return self

    def __exit__(self, *error: object) -> None:
        self._broker.__exit__(*error)

    def worker(self, slots: int, loop: str) -> WorkerProcess:
        self._started += 1
        folder = self._folder / f"worker-{self._started}"
        path = os.pathsep.join([str(self._folder), os.environ["PYTHONPATH"]])
        return WorkerProcess(
            folder,
            Journal(folder / "journal"),
            self._broker.url,
            capabilities=["noop"],
            slots=slots,
            target="bench_handlers:app",
            args=["--loop", loop],
            env={"PYTHONPATH": path, "LEADSMAN_HEALTH_PORT": ""},
        )

    def start_to_first_lease(self, rounds: int) -> float:
        """Seconds from exec to the moment at which a task that waits is seen to be leased or done."""
        taken = []
        with SyncClient(self._broker.url) as client:
            for _ in range(rounds):
                task = client.submit("noop").id
                assert task is not None
                started = time.monotonic()
                worker = self.worker(1, "auto")
                client.wait(task, timeout_seconds=60)
                taken.append(time.monotonic() - started)
                worker.close()
        return statistics.median(taken)

    def idle(self, seconds: float) -> tuple[float, float]:
        """Resident MiB, and per cent of a core, of a worker with nothing to do."""
        worker = self.worker(32, "auto")
        try:
            with SyncClient(self._broker.url) as client:
                task = client.submit("noop").id
                assert task is not None
                client.wait(task, timeout_seconds=60)
            before, began = cpu_seconds(worker.pid), time.monotonic()
            time.sleep(seconds)
            used = cpu_seconds(worker.pid) - before
            return resident_mib(worker.pid), 100 * used / (time.monotonic() - began)
        finally:
            worker.close()

    def noop(self, tasks: int, slots: int, loop: str) -> tuple[float, float, float]:
        """Tasks a second, and milliseconds of processor time per task of the worker and of the broker."""
        with SyncClient(self._broker.url) as client:
            client.submit_many(TaskSubmit(capability="noop") for _ in range(tasks))
            done_before = _done(client)
            worker = self.worker(slots, loop)
            try:
                eventually(lambda: _done(client) > done_before, what="the first task done", seconds=60)
                first, began = _done(client), time.monotonic()
                cpu = [cpu_seconds(worker.pid), cpu_seconds(self._broker.pid)]
                eventually(lambda: _done(client) >= done_before + tasks, what="every task done", seconds=300)
                took, count = time.monotonic() - began, done_before + tasks - first
                used = [
                    now - before
                    for now, before in zip(
                        [cpu_seconds(worker.pid), cpu_seconds(self._broker.pid)], cpu, strict=True
                    )
                ]
                return count / took, 1000 * used[0] / count, 1000 * used[1] / count
            finally:
                worker.close()


def _done(client: SyncClient) -> int:
    return sum(each.completed_total for each in client.stats().capabilities if each.name == "noop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--loop", default="auto", choices=["auto", "asyncio", "uvloop"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle-seconds", type=float, default=15.0)
    parser.add_argument("--only", choices=["noop", "idle", "start", "import"])
    chosen = parser.parse_args()
    report = Figures("worker", loop=chosen.loop).report
    wanted = [chosen.only] if chosen.only else ["import", "start", "idle", "noop"]
    with tempfile.TemporaryDirectory(prefix="leadsman-bench-") as folder, Bench(Path(folder)) as bench:
        if "import" in wanted:
            for metric, statement, target in IMPORTS:
                value = import_ms(statement, chosen.rounds)
                report(metric, value, "ms", rounds=chosen.rounds, **({"target": target} if target else {}))
        if "start" in wanted:
            value = bench.start_to_first_lease(chosen.rounds)
            report("start_to_first_lease_s", value, "s", rounds=chosen.rounds, target=1.5)
        if "idle" in wanted:
            resident, percent = bench.idle(chosen.idle_seconds)
            report("idle_rss_mib", resident, "MiB", target=60)
            report("idle_cpu_percent", percent, "% of a core", seconds=chosen.idle_seconds, target=1)
        if "noop" in wanted:
            rate, worker_ms, broker_ms = bench.noop(chosen.tasks, chosen.slots, chosen.loop)
            report(
                "noop_tasks_per_s",
                rate,
                "1/s",
                target=1500,
                slots=chosen.slots,
                tasks=chosen.tasks,
                worker_cpu_ms_per_task=round(worker_ms, 3),
                broker_cpu_ms_per_task=round(broker_ms, 3),
            )


if __name__ == "__main__":
    main()
