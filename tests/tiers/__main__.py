"""`python -m tiers`: the body of `make test`.

A tier is a make target, so that each can be run alone. One that fails does not stop the next: a person wants the
whole picture of a run that took many minutes. A tier that the machine cannot run (no root, no Go) skips its tests
with the reason; that is reported, and is a failure where every tier is demanded (`--require-all`, as CI does).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[2]

TIERS = (
    "lint",
    "crds-check",
    "test-unit",
    "test-broker",
    "test-sdk",
    "test-operator",
    "test-local",
    "test-cluster",
    "test-control-plane",
    "test-chart",
    "test-e2e",
)


@dataclass
class Outcome:
    """What one tier did."""

    tier: str
    exit_code: int
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: set[str] = field(default_factory=set)


def run_tier(tier: str, report: Path) -> Outcome:
    """Run one make target; its pytest, if it has one, leaves a JUnit report at `report`."""
    print(f"\n=== {tier}", flush=True)
    started = time.monotonic()
    env = os.environ | {"LEADSMAN_JUNIT": str(report), "LEADSMAN_TIER_RUN": "1"}
    code = subprocess.run(["make", "--no-print-directory", tier], cwd=ROOT, env=env, check=False).returncode
    outcome = Outcome(tier, code, time.monotonic() - started)
    if report.exists():
        read_report(report, outcome)
    elif code == 0:
        outcome.passed = 1
    else:
        outcome.failed = 1
    return outcome


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
            f"{outcome.skipped:3} skipped {outcome.seconds:7.1f} s"
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
    parser.add_argument("tiers", nargs="*", default=list(TIERS), help="the tiers to run, in this order")
    parser.add_argument("--require-all", action="store_true", help="a skipped test is a failure")
    arguments = parser.parse_args()
    require_all = arguments.require_all or bool(os.environ.get("LEADSMAN_REQUIRE_ALL_TIERS"))
    with tempfile.TemporaryDirectory(prefix="leadsman-tiers-") as folder:
        outcomes = [run_tier(tier, Path(folder) / f"{tier}.xml") for tier in arguments.tiers]
    return summarise(outcomes, require_all=require_all)


if __name__ == "__main__":
    sys.exit(main())
