"""Every file under examples/ for kubectl is what the API server accepts, with our kinds as they are."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from cluster.examples import is_manifest, yaml_examples

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = yaml_examples()
MANIFESTS = [path for path in EXAMPLES if is_manifest(path)]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("example", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_is_accepted_as_it_is(control_plane, example):
    with control_plane.namespace("examples") as namespace:
        words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--namespace", namespace)
        accepted = control_plane.kubectl(*words, "-f", str(example))
        assert len(accepted.splitlines()) == len(list(yaml.safe_load_all(example.read_text())))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_says_first_what_it_shows(example):
    assert example.read_text().startswith("# ")


def test_the_demo_has_a_queue_for_each_fleet():
    def names(file):
        return {
            item["metadata"]["name"] for item in yaml.safe_load_all((ROOT / "examples/demo" / file).read_text())
        }

    assert names("capabilities.yaml") == names("pools.yaml")


@pytest.mark.parametrize(
    ("file", "served"), [("handlers.py", {"browser"}), ("demo/handlers.py", {"browser", "llm"})]
)
def test_example_handlers_serve_what_the_pools_beside_them_ask(file, served):
    spec = importlib.util.spec_from_file_location("example_handlers", ROOT / "examples" / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.app.capabilities) == served
