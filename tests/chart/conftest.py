"""The real helm: what the chart renders, and a release of it on a real API server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ControlPlane, UnavailableError, helm
from cluster.fixtures import control_plane

__all__ = ["control_plane"]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "leadsman"
CRDS = ("capabilities.leadsman.dev", "workerpools.leadsman.dev")


class Objects(list[dict[str, Any]]):
    """Rendered objects, found by kind and name."""

    def one(self, kind: str, name: str) -> dict[str, Any]:
        found = [item for item in self if item["kind"] == kind and item["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} of {kind} {name}"
        return found[0]

    def kinds(self) -> set[str]:
        return {item["kind"] for item in self}


@pytest.fixture(scope="session")
def chart() -> Path:
    return CHART


@pytest.fixture(scope="session")
def helm_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        helm.helm()
    except UnavailableError as reason:
        pytest.skip(f"no helm here: {reason}")
    return tmp_path_factory.mktemp("helm")


@pytest.fixture(scope="session")
def render(helm_home: Path) -> Callable[..., Objects]:
    """Render the chart: `render({"operator": {"replicas": 1}}, namespace="ns")`."""

    def rendered(values: dict[str, Any] | None = None, *, release: str = "leadsman", namespace: str = "system"):
        file = helm_home / "values.json"
        file.write_text(json.dumps(values or {}))
        words = ("template", release, str(CHART), "--namespace", namespace, "--values", str(file))
        text = helm.run(Path("/dev/null"), helm_home, *words)
        return Objects(item for item in yaml.safe_load_all(text) if item)

    return rendered


@pytest.fixture
def release(control_plane: ControlPlane, helm_home: Path) -> Iterator[Callable[..., str]]:
    """Run helm on the real API server: `release("install", ...)`. What is left is taken out at the end."""

    def run(*words: str) -> str:
        return helm.run(control_plane.kubeconfig, helm_home, *words)

    yield run
    for found in json.loads(run("list", "--all-namespaces", "--output", "json")):
        run("uninstall", found["name"], "--namespace", found["namespace"])
    control_plane.kubectl("delete", "crd", "--ignore-not-found", *CRDS)
