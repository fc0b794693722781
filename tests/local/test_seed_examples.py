"""The requirement's examples, word for word, from `leadsman simulate` as a user runs it."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "seed"

EXAMPLE_3 = """\
scale up -> 2 workers (depth 6)
w1 leased t3 (code)
w2 leased t4 (code)
w1 crashed mid-task (lease not renewed)
scale up -> 3 workers (depth 4)
w3 leased t0 (llm)
scale up -> 4 workers (depth 3)
w2 finished t4
w4 leased t1 (llm)
reclaimed t3 from a dead worker
scale up -> 5 workers (depth 3)
w2 leased t3 (code)
w3 finished t0
w5 leased t5 (llm)
w3 leased t2 (search)
w3 finished t2
w4 finished t1
w2 finished t3
w5 finished t5
scale down -> 4 workers
scale down -> 3 workers
completed: ['t0', 't1', 't2', 't3', 't4', 't5']
still leased (in flight): []
remaining queue depth: 0
worker count at end: 3
"""


def simulate(*arguments: str) -> str:
    command = [sys.executable, "-m", "leadsman.cli", "simulate", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_example_3_prints_the_verified_lines_and_the_four_closing_ones():
    assert simulate(str(EXAMPLES / "example3.yaml")) == EXAMPLE_3


def test_example_4_leases_the_high_priority_first():
    assert simulate(str(EXAMPLES / "example4.yaml")) == "leased first: high\n"


def test_example_5_refuses_in_the_words_of_the_requirement():
    refusal = "{'accepted': False, 'reason': 'pool saturated', 'retry_after_s': 30}\n"
    assert simulate(str(EXAMPLES / "example5.yaml")) == refusal


def test_a_changed_script_prints_other_lines(tmp_path):
    text = (EXAMPLES / "example3.yaml").read_text().replace("{tick: 1, worker: w1}", "{tick: 1, worker: w2}")
    changed = tmp_path / "changed.yaml"
    changed.write_text(text)
    lines = simulate(str(changed)).splitlines()
    assert "w2 crashed mid-task (lease not renewed)" in lines
    assert "reclaimed t4 from a dead worker" in lines
    assert "w1 finished t3" in lines
    assert lines[-4] == "completed: ['t0', 't1', 't2', 't3', 't4', 't5']"
