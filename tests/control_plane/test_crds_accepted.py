"""What the API server does with the two kinds: accepts, fills in, shows and explains."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from cluster import ControlPlane
from cluster.examples import is_manifest, yaml_examples
from fleet.manifests import worker_deployment
from leadsman_operator.api import Capability, WorkerPool, pool_spec

ROOT = Path(__file__).resolve().parents[2]
CRDS = sorted((ROOT / "crds").glob("*.yaml"))
APPLY_ANNOTATION_LIMIT = 256 * 1024

SMALLEST = """
apiVersion: leadsman.dev/v1alpha1
kind: Capability
metadata: {name: browser}
---
apiVersion: leadsman.dev/v1alpha1
kind: WorkerPool
metadata: {name: browser}
spec: {maxReplicas: 20, image: "registry.example/agents:1.4.0"}
"""


@pytest.fixture
def kubectl(crds: ControlPlane, namespace: str) -> Any:
    def run(*arguments: str, stdin: str | None = None) -> str:
        return crds.kubectl("-n", namespace, *arguments, stdin=stdin)

    return run


def examples() -> Iterator[Path]:
    return filter(is_manifest, yaml_examples())


def stated(model: BaseModel) -> dict[str, Any]:
    """What a server that knows the model's defaults shows: what is absent, or a list of nothing, has none."""
    shown = model.model_dump(mode="json", by_alias=True, exclude_none=True)

    def without_empty(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: without_empty(each) for name, each in value.items() if each != []}

    return without_empty(shown)


def test_a_definition_fits_into_the_annotation_of_a_plain_apply():
    for path in CRDS:
        document = yaml.safe_load(path.read_text())
        assert len(json.dumps(document)) < APPLY_ANNOTATION_LIMIT
    assert len(CRDS) == 2


def test_the_definitions_can_be_applied_plainly_and_are_structural(crds):
    crds.kubectl("apply", *(f"-f={path}" for path in CRDS), "--dry-run=server")
    for path in CRDS:
        name = yaml.safe_load(path.read_text())["metadata"]["name"]
        conditions = crds.get("crd", name)["status"]["conditions"]
        found = {each["type"]: each["status"] for each in conditions}
        assert found["Established"] == "True"
        assert found["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in found


def test_the_smallest_useful_pair_is_accepted_and_read_back_with_the_models_defaults(kubectl):
    kubectl("apply", "-f", "-", stdin=SMALLEST)

    stored_capability = json.loads(kubectl("get", "cap", "browser", "-o", "json"))
    stored_pool = json.loads(kubectl("get", "wp", "browser", "-o", "json"))

    given_capability, given_pool = yaml.safe_load_all(SMALLEST)
    assert Capability.model_validate(stored_capability).spec == Capability.model_validate(given_capability).spec
    pool = WorkerPool.model_validate(stored_pool)
    assert pool.spec == WorkerPool.model_validate(given_pool).spec
    assert pool.capabilities == ("browser",)
    assert pool_spec(pool).max_replicas == 20


def test_the_server_fills_in_exactly_the_defaults_of_the_models(kubectl):
    kubectl("apply", "-f", "-", stdin=SMALLEST)

    capability = json.loads(kubectl("get", "cap", "browser", "-o", "json"))
    pool = json.loads(kubectl("get", "wp", "browser", "-o", "json"))

    assert capability["spec"] == stated(Capability().spec)
    bare = WorkerPool.model_validate({"spec": {"maxReplicas": 20, "image": "registry.example/agents:1.4.0"}})
    assert pool["spec"] == stated(bare.spec)


@pytest.mark.parametrize("path", list(examples()), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_example_is_accepted(kubectl, path):
    kubectl("apply", "--server-side", "--dry-run=server", "-f", str(path))


def test_a_dry_run_of_both_kinds_in_one_file_needs_neither_of_them_to_exist(kubectl):
    answer = kubectl("apply", "--dry-run=server", "-f", "-", stdin=SMALLEST)

    assert "capability.leadsman.dev/browser created (server dry run)" in answer
    assert "workerpool.leadsman.dev/browser created (server dry run)" in answer


@pytest.mark.parametrize("side", [(), ("--server-side",)], ids=["client-side", "server-side"])
@pytest.mark.parametrize("pool_first", [True, False])
def test_a_dry_run_of_a_pool_and_the_deployment_it_refers_to_needs_neither_to_exist(kubectl, side, pool_first):
    referring = {
        "apiVersion": "leadsman.dev/v1alpha1",
        "kind": "WorkerPool",
        "metadata": {"name": "mine"},
        "spec": {"maxReplicas": 3, "deploymentRef": {"name": "mine"}},
    }
    both = [referring, worker_deployment("mine", replicas=1)]
    file = yaml.safe_dump_all(both if pool_first else both[::-1])

    answer = kubectl("apply", *side, "--dry-run=server", "-f", "-", stdin=file)

    said = "serverside-applied" if side else "created"
    assert f"workerpool.leadsman.dev/mine {said} (server dry run)" in answer
    assert f"deployment.apps/mine {said} (server dry run)" in answer


def test_a_field_that_does_not_exist_is_named(kubectl):
    with pytest.raises(Exception, match=r'unknown field "spec\.scaling\.targetDepth"'):
        kubectl(
            "apply",
            "--validate=strict",
            "-f",
            "-",
            stdin=SMALLEST.replace("maxReplicas: 20,", "maxReplicas: 20, scaling: {targetDepth: 3},"),
        )


def test_a_pod_template_keeps_what_the_schema_does_not_know(kubectl):
    template = {
        "metadata": {"labels": {"team": "search"}},
        "spec": {
            "containers": [{"name": "worker", "image": "agents:1", "resources": {"limits": {"memory": "1Gi"}}}],
            "priorityClassName": "low",
        },
    }
    pool = {
        "apiVersion": "leadsman.dev/v1alpha1",
        "kind": "WorkerPool",
        "metadata": {"name": "browser"},
        "spec": {"maxReplicas": 2, "template": template},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(pool))

    stored = json.loads(kubectl("get", "wp", "browser", "-o", "json"))

    assert stored["spec"]["template"] == template


def test_kubectl_scale_sets_the_smallest_number_of_workers(kubectl):
    kubectl("apply", "-f", "-", stdin=SMALLEST)

    kubectl("scale", "wp", "browser", "--replicas=3")

    assert json.loads(kubectl("get", "wp", "browser", "-o", "json"))["spec"]["minReplicas"] == 3


def test_the_scale_subresource_shows_the_status(kubectl, crds, namespace):
    kubectl("apply", "-f", "-", stdin=SMALLEST)
    status = {"status": {"replicas": 4, "selector": "leadsman.dev/pool=browser"}}
    kubectl("patch", "wp", "browser", "--subresource=status", "--type=merge", "-p", json.dumps(status))

    scale = json.loads(
        crds.kubectl(
            "get", "--raw", f"/apis/leadsman.dev/v1alpha1/namespaces/{namespace}/workerpools/browser/scale"
        )
    )

    assert scale["spec"].get("replicas", 0) == 0
    assert scale["status"] == {"replicas": 4, "selector": "leadsman.dev/pool=browser"}


def test_get_shows_what_a_person_wants_to_know_first(kubectl):
    kubectl("apply", "-f", "-", stdin=SMALLEST)

    pools = kubectl("get", "wp").splitlines()[0].split()
    capabilities = kubectl("get", "cap").splitlines()[0].split()

    assert pools == ["NAME", "DESIRED", "READY", "BUSY", "QUEUED", "OLDEST", "REASON", "AGE"]
    assert capabilities == ["NAME", "READY", "QUEUED", "LEASED", "DEAD", "AGE"]
    assert "DECISION" in kubectl("get", "wp", "-o", "wide")


def test_the_age_of_the_oldest_task_grows_without_a_write(kubectl):
    kubectl("apply", "-f", "-", stdin=SMALLEST)
    status = {"status": {"oldestTaskTime": "2020-01-01T00:00:00Z"}}
    kubectl("patch", "wp", "browser", "--subresource=status", "--type=merge", "-p", json.dumps(status))

    line = kubectl("get", "wp", "browser", "--no-headers").split()

    assert any(cell.endswith("y") or "y" in cell for cell in line), line


def test_both_kinds_are_listed_under_one_category(kubectl):
    kubectl("apply", "-f", "-", stdin=SMALLEST)

    names = kubectl("get", "leadsman", "-o", "name").split()

    assert names == ["capability.leadsman.dev/browser", "workerpool.leadsman.dev/browser"]


@pytest.mark.parametrize(
    ("path", "phrases"),
    [
        ("workerpool.spec", ["maxReplicas", "-required-", "give exactly one of image, template and deploymentRef"]),
        ("workerpool.spec.scaling", ["targetTasksPerSlot", "Depth target", "Age target", "enum: Active, Observe"]),
        ("workerpool.spec.scaling.scaleIn", ["idleSeconds", "Only workers that hold no task are ever taken away"]),
        ("workerpool.status.lastDecision", ["summary", "Every bound that changed the number, in order"]),
        ("capability.spec.lease", ["heartbeatSeconds", "taken for dead"]),
        ("capability.spec.admission", ["maxDepth", '"pool saturated"']),
    ],
)
def test_explain_reads_like_documentation(kubectl, path, phrases):
    text = " ".join(kubectl("explain", path).split())

    for phrase in phrases:
        assert phrase.lower() in text.lower()
