"""Every scenario under examples/ is one that the simulator takes."""

from pathlib import Path

import pytest

from cluster.examples import ROOT, is_manifest, yaml_examples
from leadsman_local.simulator.scenario import load

SCENARIOS = [path for path in yaml_examples() if not is_manifest(path)]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_an_example_that_is_not_for_kubectl_is_a_scenario(path: Path) -> None:
    assert load(path)
