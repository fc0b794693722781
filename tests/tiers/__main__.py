"""`python -m tiers`: the body of `make test`.

A tier is a make target, so that each can be run alone. One that fails does not stop the next: a person wants the
whole picture of a run that took many minutes. A tier that the machine cannot run (no root, no Go) skips its tests
with the reason; that is reported, and is a failure where every tier is demanded (`--require-all`, as CI does).

Three lanes run beside each other: the tiers of one keep the processors busy, those of the next mostly wait, for a
controller, a probe, an idle window, and the last begins with ten minutes of churn, which they are on any machine.
What a tier prints is shown when it ends, so that two do not mix.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[2]

LANES = (
    ("lint", "crds-check", "test-unit", "test-broker", "test-operator", "test-local"),
    ("test-cluster", "test-control-plane", "test-chart", "test-e2e"),
    ("test-churn", "test-sdk"),
)

_printing = threading.Lock()


@dataclass
class Outcome:
    """What one tier did."""

    tier: str
    exit_code: int
    seconds: float
    cpu_seconds: float = 0.0
    """Of the tier's processes that ended with it; a test cluster's servers are not among them."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: set[str] = field(default_factory=set)


def run_tier(tier: str, folder: Path) -> Outcome:
    """Run one make target and show what it printed; a JUnit report of its pytest goes to `folder`."""
    report = folder / f"{tier}.xml"
    printed = folder / f"{tier}.log"
    tell(f"... {tier} runs")
    started = time.monotonic()
    env = os.environ | {"LEADSMAN_JUNIT": str(report), "LEADSMAN_TIER_RUN": "1"}
    with printed.open("wb") as log:
        process = subprocess.Popen(
            ["make", "--no-print-directory", tier], cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    outcome = Outcome(tier, process.returncode, time.monotonic() - started, used.ru_utime + used.ru_stime)
    if report.exists():
        read_report(report, outcome)
    elif outcome.exit_code == 0:
        outcome.passed = 1
    else:
        outcome.failed = 1
    tell(f"\n=== {tier}\n{printed.read_text(errors='replace')}")
    return outcome


def tell(text: str) -> None:
    """Print from one thread at a time."""
    with _printing:
        print(text, flush=True)


def run_lanes(lanes: Sequence[Sequence[str]], folder: Path) -> list[Outcome]:
    """Run each lane's tiers in order, the lanes beside each other; no further one after an interrupt."""
    interrupted = threading.Event()

    def run_lane(lane: Sequence[str]) -> list[Outcome]:
        return [run_tier(tier, folder) for tier in lane if not interrupted.is_set()]

    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(run_lane, lane) for lane in lanes]
        try:
            return [outcome for lane in running for outcome in lane.result()]
        except KeyboardInterrupt:
            interrupted.set()  # the tiers that run got the signal as well, and end by themselves
            raise


def read_report(report: Path, outcome: Outcome) -> None:
    """Add the counts and skip reasons of a JUnit report."""
    for case in ET.parse(report).getroot().iter("testcase"):
        skip = case.find("skipped")
        if skip is not None:
            outcome.skipped += 1
            outcome.reasons.add(skip.get("message") or "no reason given")
        elif case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        else:
            outcome.passed += 1


def summarise(outcomes: list[Outcome], *, require_all: bool) -> int:
    """Print the closing table and return the exit code."""
    print("\n=== summary")
    for outcome in outcomes:
        verdict = "FAILED" if outcome.exit_code else "skipped" if not outcome.passed else "ok"
        print(
            f"{outcome.tier:22} {verdict:8} {outcome.passed:5} passed {outcome.failed:3} failed "
            f"{outcome.skipped:3} skipped {outcome.seconds:7.1f} s {outcome.cpu_seconds:7.1f} s of CPU"
        )
    skipped = [outcome for outcome in outcomes if outcome.skipped]
    for outcome in skipped:
        for reason in sorted(outcome.reasons):
            print(f"skipped in {outcome.tier}: {reason}")
    if skipped and require_all:
        print("every tier is demanded here, so a skipped test is a failure")
    failed = sum(outcome.failed or int(outcome.exit_code != 0) for outcome in outcomes)
    total_skipped = sum(outcome.skipped for outcome in outcomes)
    if require_all:
        failed += total_skipped
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {failed} failed, {total_skipped} skipped")
    return 1 if failed else 0


def main() -> int:
    """Parse the arguments and run the tiers."""
    parser = argparse.ArgumentParser(prog="tiers", description=__doc__)
    parser.add_argument("tiers", nargs="*", help="the tiers to run, one after the other; without any, all of them")
    parser.add_argument("--require-all", action="store_true", help="a skipped test is a failure")
    arguments = parser.parse_args()
    require_all = arguments.require_all or bool(os.environ.get("LEADSMAN_REQUIRE_ALL_TIERS"))
    with tempfile.TemporaryDirectory(prefix="leadsman-tiers-") as folder:
        began = time.monotonic()
        outcomes = run_lanes([arguments.tiers] if arguments.tiers else LANES, Path(folder))
        lasted = time.monotonic() - began
    print(f"\n=== {lasted:.0f} s in all")
    return summarise(outcomes, require_all=require_all)


if __name__ == "__main__":
    sys.exit(main())
