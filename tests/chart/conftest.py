"""The real helm: what the chart renders, and a release of it on a real API server."""

import json
import secrets
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
TRIAL = ("--set", "broker.persistence.enabled=false")
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


@pytest.fixture(scope="session")
def on_cluster(control_plane: ControlPlane, helm_home: Path) -> Callable[..., str]:
    """Run helm on the real API server: `on_cluster("install", ...)`."""

    def run(*words: str) -> str:
        return helm.run(control_plane.kubeconfig, helm_home, *words)

    return run


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane, on_cluster: Callable[..., str]) -> Iterator[str]:
    """A release for tests that only look; its namespace."""
    system = f"system-{secrets.token_hex(3)}"
    on_cluster("install", "leadsman", str(CHART), "--namespace", system, "--create-namespace", *TRIAL)
    established(control_plane)
    yield system
    _take_out(control_plane, on_cluster)
    control_plane.kubectl("delete", "namespace", system, "--wait=false")


@pytest.fixture(scope="session")
def served(control_plane: ControlPlane) -> Callable[[], None]:
    """Wait until the API server serves our kinds."""
    return lambda: established(control_plane)


@pytest.fixture
def release(control_plane: ControlPlane, on_cluster: Callable[..., str]) -> Iterator[Callable[..., str]]:
    """Helm for a test that installs by itself; whatever it leaves is taken out at the end."""
    yield on_cluster
    _take_out(control_plane, on_cluster)


@pytest.fixture(scope="session")
def may(control_plane: ControlPlane) -> Callable[..., bool]:
    """Ask the real authorizer whether a service account (`namespace:name`) may do this."""

    def ask(account: str, verb: str, resource: str, namespace: str = "default") -> bool:
        plural, _, subresource = resource.partition("/")
        name, _, group = plural.partition(".")
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{account}",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": {
                    "verb": verb,
                    "group": group,
                    "resource": name,
                    "subresource": subresource,
                    "namespace": namespace,
                },
            },
        }
        answer = control_plane.kubectl("create", "-f", "-", "--output", "json", stdin=json.dumps(review))
        return bool(json.loads(answer)["status"]["allowed"])

    return ask


def established(control_plane: ControlPlane) -> None:
    """Wait until the API server serves our kinds."""
    control_plane.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in CRDS), "--timeout=60s")


def _take_out(control_plane: ControlPlane, on_cluster: Callable[..., str]) -> None:
    for found in json.loads(on_cluster("list", "--all-namespaces", "--output", "json")):
        on_cluster("uninstall", found["name"], "--namespace", found["namespace"])
    if there := control_plane.kubectl("get", "crd", "--ignore-not-found", "--output", "name", *CRDS).split():
        # A kind whose storage is just being set up when it is deleted can stay half gone for minutes: the API
        # server fails to list its objects and may forget to try again. One that has been listed is set up.
        established(control_plane)
        control_plane.kubectl("get", ",".join(CRDS), "--all-namespaces")
        control_plane.kubectl("delete", *there)
