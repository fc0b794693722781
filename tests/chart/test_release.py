"""Releases of the chart on a real API server: install, upgrade, uninstall, and side by side."""

import json
import secrets
import shutil
from pathlib import Path

import pytest

TRIAL = ("--set", "broker.persistence.enabled=false")
OPERATOR = "leadsman-operator"
BROKER = "leadsman-broker"


@pytest.fixture
def system(control_plane):
    name = f"system-{secrets.token_hex(3)}"
    yield name
    control_plane.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def first_release(served, release, system, chart):
    release("install", "leadsman", str(chart), "--namespace", system, "--create-namespace", *TRIAL)
    served()
    return system


def test_the_notes_say_what_to_do_next(release, system, chart):
    shown = release("install", "leadsman", str(chart), "--namespace", system, "--create-namespace", *TRIAL)
    for words in (
        f"kubectl -n {system} rollout status statefulset/{BROKER}",
        "kind: WorkerPool",
        "leadsman submit browser",
        "kubectl create token",
        "WARNING: broker.persistence.enabled is false",
    ):
        assert words in shown


def test_with_listed_namespaces_the_operator_may_work_there_and_nowhere_else(
    may, control_plane, release, system, chart
):
    with control_plane.namespace("served") as served:
        words = ("--create-namespace", *TRIAL, "--set", f"watchNamespaces={{{served}}}")
        release("install", "leadsman", str(chart), "--namespace", system, *words)
        account = f"{system}:{OPERATOR}"
        assert may(account, "patch", "deployments.apps/scale", served)
        assert not may(account, "patch", "deployments.apps/scale", "default")
        assert not may(account, "watch", "workerpools.leadsman.dev", "default")


def test_an_upgrade_changes_what_was_asked_and_keeps_pools(control_plane, first_release, release, chart):
    with control_plane.namespace("agents") as namespace:
        pool = {
            "apiVersion": "leadsman.dev/v1alpha1",
            "kind": "WorkerPool",
            "metadata": {"name": "browser", "namespace": namespace},
            "spec": {"maxReplicas": 3, "image": "registry.example/agents:1"},
        }
        control_plane.apply(pool)
        words = ("--set", "operator.replicas=1", "--set", "image.tag=0.2.0")
        release("upgrade", "leadsman", str(chart), "--namespace", first_release, *TRIAL, *words)
        operator = control_plane.get("deployment", OPERATOR, "--namespace", first_release)
        assert operator["spec"]["replicas"] == 1
        assert operator["spec"]["template"]["spec"]["containers"][0]["image"] == "leadsman:0.2.0"
        assert control_plane.get("workerpool", "browser", "--namespace", namespace)["spec"]["maxReplicas"] == 3


def older(chart: Path, where: Path, field: str) -> Path:
    """A copy of the chart from a time when queues did not have this field yet."""
    copy = Path(shutil.copytree(chart, where))
    kinds = copy / "templates" / "crds.yaml"
    lines = kinds.read_text().splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if line.strip() == f"{field}:"]
    deep = len(lines[at]) - len(lines[at].lstrip())
    end = next(n for n in range(at + 1, len(lines)) if len(lines[n]) - len(lines[n].lstrip()) <= deep)
    kinds.write_text("".join(lines[:at] + lines[end:]))
    return copy


def test_an_upgrade_brings_the_kinds_of_an_older_version_up_to_date_and_keeps_their_objects(
    control_plane, served, release, system, chart, tmp_path
):
    before = older(chart, tmp_path / "leadsman", "maxDepthPerTenant")
    release("install", "leadsman", str(before), "--namespace", system, "--create-namespace", *TRIAL)
    served()
    with control_plane.namespace("agents") as namespace:

        def applied():
            queue = {
                "apiVersion": "leadsman.dev/v1alpha1",
                "kind": "Capability",
                "metadata": {"name": "browser", "namespace": namespace},
                "spec": {"admission": {"maxDepth": 9, "maxDepthPerTenant": 7}},
            }
            control_plane.kubectl("apply", "--validate=ignore", "-f", "-", stdin=json.dumps(queue))
            return control_plane.get("capability", "browser", "--namespace", namespace)

        old = applied()
        assert "maxDepthPerTenant" not in old["spec"]["admission"], "the older kind does not know it"

        release("upgrade", "leadsman", str(chart), "--namespace", system, *TRIAL)

        new = applied()
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
        assert new["spec"]["admission"]["maxDepthPerTenant"] == 7


def test_an_uninstall_leaves_the_kinds_and_pools_and_a_new_install_takes_them_up(
    control_plane, first_release, release, chart
):
    with control_plane.namespace("agents") as namespace:
        control_plane.apply(
            {
                "apiVersion": "leadsman.dev/v1alpha1",
                "kind": "Capability",
                "metadata": {"name": "browser", "namespace": namespace},
            }
        )
        shown = release("uninstall", "leadsman", "--namespace", first_release)
        assert "kept" in shown
        kept = control_plane.get("capability", "browser", "--namespace", namespace)
        assert not control_plane.get("deployments,statefulsets,services", "--namespace", first_release)["items"]
        release("install", "leadsman", str(chart), "--namespace", first_release, *TRIAL)
        again = control_plane.get("capability", "browser", "--namespace", namespace)
        assert again["metadata"]["uid"] == kept["metadata"]["uid"]


def test_two_releases_in_two_namespaces_live_side_by_side(may, control_plane, release, system, chart):
    other = f"{system}-b"
    with control_plane.namespace("served-a") as first, control_plane.namespace("served-b") as second:
        for namespace, served, crds in ((system, first, "true"), (other, second, "false")):
            words = (*TRIAL, "--set", f"watchNamespaces={{{served}}}", "--set", f"crds.install={crds}")
            release("install", "leadsman", str(chart), "--namespace", namespace, "--create-namespace", *words)
        assert may(f"{system}:{OPERATOR}", "patch", "pods", first)
        assert not may(f"{system}:{OPERATOR}", "patch", "pods", second)
        assert may(f"{other}:{BROKER}", "create", "tokenreviews.authentication.k8s.io")
    control_plane.kubectl("delete", "namespace", other, "--wait=false")
