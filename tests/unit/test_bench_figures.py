"""Every benchmark prints its figures in the one form by which a program compares them."""

import ast
import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
BENCHMARKS = sorted(path for path in BENCH.glob("*.py") if "argparse" in path.read_text())
CLIENTS_OF_PEERS = {"peer_arq.py", "peer_procrastinate.py"}
"""They run in an environment of their own and answer the benchmark, not its reader."""


def test_a_figure_is_one_line_with_its_conditions(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    sys.modules.pop("figures", None)
    from figures import Figures

    report = Figures("broker", store="sqlite").report
    report("lifecycle_single_per_s", 1799.123456, "1/s", workers=32)
    line = json.loads(capsys.readouterr().out)
    assert [*line] == ["bench", "metric", "value", "unit", "conditions"]
    assert (line["bench"], line["metric"], line["unit"]) == ("broker", "lifecycle_single_per_s", "1/s")
    assert line["value"] == 1799.1235
    assert line["conditions"].keys() == {"cores", "python", "load_1m", "store", "workers"}


@pytest.mark.parametrize(
    "path", [path for path in BENCHMARKS if path.name not in CLIENTS_OF_PEERS], ids=lambda path: path.stem
)
def test_a_benchmark_prints_nothing_else(path):
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "Figures" in names
    assert "print" not in names
