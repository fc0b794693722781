"""The shape of the repository that Python itself depends on."""

import importlib
import operator
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["worker", "broker", "operator", "local", "tests/operator", "tests/broker"])
def test_a_source_folder_is_never_a_package(folder):
    assert not (ROOT / folder / "__init__.py").exists()


def test_the_operator_folder_does_not_shadow_the_standard_library():
    code = "import operator, json; print(json.dumps(operator.__file__))"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert str(ROOT) not in shown
    assert operator.itemgetter(0)("x") == "x"


@pytest.mark.parametrize("package", ["leadsman", "leadsman_broker", "leadsman_operator", "leadsman_local"])
def test_every_package_is_typed(package):
    location = Path(importlib.import_module(package).__file__ or "").parent
    assert (location / "py.typed").exists()
