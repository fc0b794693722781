"""Atheris looks for bytes that the decoders neither refuse nor read, that hang them or make them grow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SECONDS = 900 if os.environ.get("LEADSMAN_LONG") else 10


def test_no_bytes_make_the_decoders_fail_hang_or_grow(tmp_path):
    pytest.importorskip(
        "atheris", reason="atheris has no build for this Python; test_decode.py searches with hypothesis"
    )
    limits = [f"-max_total_time={SECONDS}", "-timeout=30", "-rss_limit_mb=700", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(
        [sys.executable, "-m", "decoder_fuzz", *limits, "-max_len=8192", "-verbosity=0", "-print_final_stats=1"],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=SECONDS + 200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    runs = next(line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line)
    assert int(runs) > 100
