"""A control plane works, stands beside another, and leaves nothing behind."""

from pathlib import Path

import pytest

from cluster import ClusterError, ControlPlane
from cluster.processes import marked
from cluster.waiting import wait_for


def test_controllers_act_on_a_deployment(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("-n", namespace, "create", "deployment", "web", "--image=none", "--replicas=3")

    def pods() -> bool:
        return len(control_plane.get("pods", "-n", namespace)["items"]) == 3

    wait_for("the ReplicaSet controller to make three pods", pods, seconds=30)


def test_a_failing_kubectl_says_what_the_server_said(control_plane: ControlPlane, namespace: str) -> None:
    with pytest.raises(ClusterError, match="NotFound"):
        control_plane.kubectl("-n", namespace, "get", "pod", "nobody")


def test_two_control_planes_do_not_meet_and_leave_nothing(control_plane: ControlPlane) -> None:
    with ControlPlane.start() as other:
        folder, run_id = other.run.folder, other.run.id
        other.kubectl("create", "namespace", "only-in-the-second")

        assert other.url != control_plane.url
        assert other.run.plan != control_plane.run.plan
        names = [one["metadata"]["name"] for one in control_plane.get("namespaces")["items"]]
        assert "only-in-the-second" not in names
        assert marked(run_id)

    assert not marked(run_id)
    assert not folder.exists()
    control_plane.wait_ready()


def test_the_api_server_comes_back_after_a_crash(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.components["kube-apiserver"].kill()
    with pytest.raises(ClusterError):
        control_plane.kubectl("get", "namespaces", "--request-timeout=2s")

    control_plane.restart("kube-apiserver")
    control_plane.wait_ready()

    assert control_plane.get("namespace", namespace)["metadata"]["name"] == namespace


def test_the_kubeconfig_is_readable_by_its_owner_only(control_plane: ControlPlane) -> None:
    assert Path(control_plane.kubeconfig).stat().st_mode & 0o077 == 0
