"""The runner of `make test` reports what failed and what could not run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tiers.__main__ import Outcome, read_report, run_lanes, summarise

TESTS = Path(__file__).resolve().parents[1]
REPORT = """<testsuites><testsuite>
<testcase name="passes"/>
<testcase name="fails"><failure message="no"/></testcase>
<testcase name="breaks"><error message="no"/></testcase>
<testcase name="cannot run"><skipped message="needs root"/></testcase>
</testsuite></testsuites>"""


def outcome(**counts) -> Outcome:
    return Outcome("test-e2e", 0, 1.0, **counts)


def test_a_report_is_counted(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    read = outcome()
    read_report(path, read)
    assert (read.passed, read.failed, read.skipped) == (1, 2, 1)
    assert read.reasons == {"needs root"}


@pytest.mark.parametrize(("require_all", "code"), [(False, 0), (True, 1)])
def test_a_skip_is_a_failure_only_where_every_tier_is_demanded(capsys, require_all, code):
    skipped = outcome(passed=3, skipped=2, reasons={"needs root"})
    assert summarise([skipped], require_all=require_all) == code
    shown = capsys.readouterr().out
    assert "skipped in test-e2e: needs root" in shown
    assert shown.splitlines()[-1] == f"3 passed, {2 if require_all else 0} failed, 2 skipped"


def test_a_tier_that_ends_badly_without_a_failed_test_still_fails(capsys):
    ended = Outcome("lint", 2, 1.0)
    assert summarise([ended], require_all=False) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_an_interrupt_starts_no_further_tier(tmp_path):
    (tmp_path / "Makefile").write_text("first:\n\t@cat fifo\nsecond:\n\t@touch second.ran\n")
    os.mkfifo(tmp_path / "fifo")
    program = (
        "import pathlib, tiers.__main__ as tiers\n"
        "tiers.ROOT = pathlib.Path.cwd()\n"
        "tiers.run_lanes([['first', 'second']], tiers.ROOT)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with (tmp_path / "fifo").open("wb"):  # opens when the first tier reads
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said
    assert process.returncode != 0
    assert not (tmp_path / "second.ran").exists()


def test_what_tiers_print_beside_each_other_does_not_mix(capsys, tmp_path):
    outcomes = run_lanes([["help", "no-such-tier"], ["lanes-help"]], tmp_path)
    assert [(one.tier, one.exit_code, one.passed, one.failed) for one in outcomes] == [
        ("help", 0, 1, 0),
        ("no-such-tier", 2, 0, 1),
        ("lanes-help", 2, 0, 1),
    ]
    shown = capsys.readouterr().out
    _, _, after = shown.partition("\n=== help\n")
    printed, _, _ = after.partition("\n\n")
    assert printed.splitlines() == (tmp_path / "help.log").read_text().splitlines()
    assert "No rule to make target 'no-such-tier'" in shown
