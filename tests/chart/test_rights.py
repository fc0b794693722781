"""What a release's accounts may do, asked of the real authorizer, and what the API server makes of the chart."""

import json

import pytest
import yaml

from cluster import ClusterError

OPERATOR = "leadsman-operator"
BROKER = "leadsman-broker"


def test_an_install_serves_the_kinds_and_makes_the_workloads(control_plane, installed):
    for kind in ("capabilities", "workerpools"):
        crd = control_plane.get("crd", f"{kind}.leadsman.dev")
        assert crd["status"]["acceptedNames"]["categories"] == ["leadsman"]
    assert control_plane.get("statefulset", BROKER, "--namespace", installed)["spec"]["replicas"] == 1
    assert control_plane.get("deployment", OPERATOR, "--namespace", installed)["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("watch", "workerpools.leadsman.dev"),
        ("watch", "capabilities.leadsman.dev"),
        ("patch", "workerpools.leadsman.dev/status"),
        ("create", "deployments.apps"),
        ("patch", "deployments.apps/scale"),
        ("watch", "replicasets.apps"),
        ("patch", "pods"),
        ("create", "events.events.k8s.io"),
    ],
)
def test_the_operator_may_do_its_work_in_every_namespace(may, installed, verb, resource):
    assert may(f"{installed}:{OPERATOR}", verb, resource)


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("delete", "pods"),
        ("create", "pods"),
        ("create", "pods/exec"),
        ("delete", "deployments.apps"),
        ("delete", "workerpools.leadsman.dev"),
        ("update", "workerpools.leadsman.dev"),
        ("get", "secrets"),
        ("list", "secrets"),
        ("get", "configmaps"),
        ("list", "nodes"),
        ("list", "namespaces"),
        ("create", "serviceaccounts/token"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("update", "leases.coordination.k8s.io"),
    ],
)
def test_the_operator_may_do_nothing_beyond_it(may, installed, verb, resource):
    assert not may(f"{installed}:{OPERATOR}", verb, resource)


def test_the_operator_elects_its_leader_in_the_releases_namespace_alone(may, installed):
    account = f"{installed}:{OPERATOR}"
    assert may(account, "update", "leases.coordination.k8s.io", installed)
    assert not may(account, "delete", "leases.coordination.k8s.io", installed)


def test_the_broker_may_learn_whose_token_it_is_shown_and_nothing_else(may, installed):
    account = f"{installed}:{BROKER}"
    assert may(account, "create", "tokenreviews.authentication.k8s.io")
    for verb, resource in [("get", "secrets"), ("list", "pods"), ("watch", "workerpools.leadsman.dev")]:
        assert not may(account, verb, resource, installed)


@pytest.mark.parametrize(("kind", "name"), [("statefulset", BROKER), ("deployment", OPERATOR)])
def test_the_restricted_pod_security_standard_admits_the_pods(control_plane, installed, kind, name):
    template = control_plane.get(kind, name, "--namespace", installed)["spec"]["template"]
    with control_plane.namespace("restricted") as namespace:
        control_plane.kubectl(
            "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted", "--overwrite"
        )
        control_plane.kubectl("create", "serviceaccount", name, "--namespace", namespace)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe", "namespace": namespace},
            "spec": template["spec"],
        }
        control_plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
        loose = json.loads(json.dumps(pod))
        del loose["spec"]["containers"][0]["securityContext"]
        with pytest.raises(ClusterError, match="violates PodSecurity"):
            control_plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(loose))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {
            "broker": {"auth": {"mode": "static", "tokensSecret": "tokens"}},
            "operator": {"brokerTokenSecret": "operator-token"},
        },
        {"broker": {"auth": {"mode": "none"}, "persistence": {"enabled": False}}, "operator": {"replicas": 1}},
        {
            "image": {"pullSecrets": ["registry"], "digest": f"sha256:{'0' * 64}"},
            "broker": {
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"operator": "Exists"}],
                "extraEnv": [{"name": "A", "value": "b"}],
                "persistence": {"storageClassName": "fast", "size": "50Gi", "annotations": {"a": "b"}},
                "service": {"annotations": {"a": "b"}},
                "podAnnotations": {"a": "b"},
                "podLabels": {"a": "b"},
            },
            "operator": {"affinity": {"nodeAffinity": {}}, "podLabels": {"a": "b"}},
        },
    ],
    ids=["defaults", "static", "open", "placed"],
)
def test_the_api_server_accepts_what_each_choice_renders(control_plane, render, values):
    with control_plane.namespace("dry") as namespace:
        objects = render(values, namespace=namespace)
        document = yaml.safe_dump_all(objects)
        words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--namespace", namespace)
        accepted = control_plane.kubectl(*words, "-f", "-", stdin=document)
        assert len(accepted.splitlines()) == len(objects)
