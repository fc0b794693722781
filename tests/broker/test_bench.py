"""The benchmark runs, and prints the figures under the names by which they are compared over time."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench" / "broker.py"


def test_the_broker_benchmark_prints_its_figures_as_json_lines():
    command = [sys.executable, str(BENCH), "rates", "deep", "--seconds", "0.2", "--depth", "2000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = {line["metric"]: line for line in map(json.loads, done.stdout.splitlines())}
    rates = {f"lifecycle_{name}_{what}" for name in ("batched", "single") for what in ("per_s", "cpu_us")}
    deep = {"fill_per_s_2k", "rss_2k_mib", "dequeue_slowdown_2k", "pause_max_ms_2k", "restart_2k_s"}
    assert set(found) == rates | deep | {"rss_restarted_2k_mib"}
    assert all(line["value"] > 0 for line in found.values())
    assert found["lifecycle_batched_per_s"]["conditions"]["store"].endswith("synchronous=FULL")
