"""Releases of the chart on a real API server: install, upgrade, uninstall, and what the accounts may do."""

import json
import secrets

import pytest
import yaml

from cluster import ClusterError

TRIAL = ("--set", "broker.persistence.enabled=false")
OPERATOR = "leadsman-operator"
BROKER = "leadsman-broker"


@pytest.fixture
def system(control_plane):
    name = f"system-{secrets.token_hex(3)}"
    yield name
    control_plane.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def installed(release, system, chart):
    release("install", "leadsman", str(chart), "--namespace", system, "--create-namespace", *TRIAL)
    return system


def may(control_plane, account, verb, resource, namespace="default"):
    """Ask the real authorizer whether a service account (`namespace:name`) may do this."""
    plural, _, subresource = resource.partition("/")
    name, _, group = plural.partition(".")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": name,
        "subresource": subresource,
        "namespace": namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{account}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes | {"namespace": namespace},
        },
    }
    answer = control_plane.kubectl("create", "-f", "-", "--output", "json", stdin=json.dumps(review))
    return json.loads(answer)["status"]["allowed"]


def test_an_install_serves_the_kinds_and_makes_the_workloads(control_plane, installed):
    crds = ("crd/capabilities.leadsman.dev", "crd/workerpools.leadsman.dev")
    control_plane.kubectl("wait", "--for=condition=Established", *crds, "--timeout=60s")
    assert control_plane.get("statefulset", BROKER, "--namespace", installed)["spec"]["replicas"] == 1
    assert control_plane.get("deployment", OPERATOR, "--namespace", installed)["spec"]["replicas"] == 2


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
def test_the_operator_may_do_its_work_in_every_namespace(control_plane, installed, verb, resource):
    assert may(control_plane, f"{installed}:{OPERATOR}", verb, resource)


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
def test_the_operator_may_do_nothing_beyond_it(control_plane, installed, verb, resource):
    assert not may(control_plane, f"{installed}:{OPERATOR}", verb, resource)


def test_the_operator_elects_its_leader_in_the_releases_namespace_alone(control_plane, installed):
    account = f"{installed}:{OPERATOR}"
    assert may(control_plane, account, "update", "leases.coordination.k8s.io", installed)
    assert not may(control_plane, account, "delete", "leases.coordination.k8s.io", installed)


def test_the_broker_may_learn_whose_token_it_is_shown_and_nothing_else(control_plane, installed):
    account = f"{installed}:{BROKER}"
    assert may(control_plane, account, "create", "tokenreviews.authentication.k8s.io")
    for verb, resource in [("get", "secrets"), ("list", "pods"), ("watch", "workerpools.leadsman.dev")]:
        assert not may(control_plane, account, verb, resource, installed)


def test_with_listed_namespaces_the_operator_may_work_there_and_nowhere_else(control_plane, release, system, chart):
    with control_plane.namespace("served") as served:
        words = ("--create-namespace", *TRIAL, "--set", f"watchNamespaces={{{served}}}")
        release("install", "leadsman", str(chart), "--namespace", system, *words)
        account = f"{system}:{OPERATOR}"
        assert may(control_plane, account, "patch", "deployments.apps/scale", served)
        assert not may(control_plane, account, "patch", "deployments.apps/scale", "default")
        assert not may(control_plane, account, "watch", "workerpools.leadsman.dev", "default")


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
        {"watchNamespaces": ["default"]},
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
    ids=["defaults", "namespaced", "static", "open", "placed"],
)
def test_the_api_server_accepts_what_each_choice_renders(control_plane, render, values):
    with control_plane.namespace("dry") as namespace:
        objects = render(values, namespace=namespace)
        document = yaml.safe_dump_all(objects)
        words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--namespace", namespace)
        accepted = control_plane.kubectl(*words, "-f", "-", stdin=document)
        assert len(accepted.splitlines()) == len(objects)


def test_an_upgrade_changes_what_was_asked_and_keeps_pools(control_plane, installed, release, chart):
    with control_plane.namespace("agents") as namespace:
        pool = {
            "apiVersion": "leadsman.dev/v1alpha1",
            "kind": "WorkerPool",
            "metadata": {"name": "browser", "namespace": namespace},
            "spec": {"maxReplicas": 3, "image": "registry.example/agents:1"},
        }
        control_plane.kubectl(
            "wait", "--for=condition=Established", "crd/workerpools.leadsman.dev", "--timeout=60s"
        )
        control_plane.apply(pool)
        words = ("--set", "operator.replicas=1", "--set", "image.tag=0.2.0")
        release("upgrade", "leadsman", str(chart), "--namespace", installed, *TRIAL, *words)
        operator = control_plane.get("deployment", OPERATOR, "--namespace", installed)
        assert operator["spec"]["replicas"] == 1
        assert operator["spec"]["template"]["spec"]["containers"][0]["image"] == "leadsman:0.2.0"
        assert control_plane.get("workerpool", "browser", "--namespace", namespace)["spec"]["maxReplicas"] == 3


def test_an_uninstall_leaves_the_kinds_and_pools_and_a_new_install_takes_them_up(
    control_plane, installed, release, chart
):
    with control_plane.namespace("agents") as namespace:
        control_plane.kubectl(
            "wait", "--for=condition=Established", "crd/capabilities.leadsman.dev", "--timeout=60s"
        )
        control_plane.apply(
            {
                "apiVersion": "leadsman.dev/v1alpha1",
                "kind": "Capability",
                "metadata": {"name": "browser", "namespace": namespace},
            }
        )
        shown = release("uninstall", "leadsman", "--namespace", installed)
        assert "kept" in shown
        kept = control_plane.get("capability", "browser", "--namespace", namespace)
        assert not control_plane.get("deployments,statefulsets,services", "--namespace", installed)["items"]
        release("install", "leadsman", str(chart), "--namespace", installed, *TRIAL)
        again = control_plane.get("capability", "browser", "--namespace", namespace)
        assert again["metadata"]["uid"] == kept["metadata"]["uid"]


def test_two_releases_in_two_namespaces_live_side_by_side(control_plane, release, system, chart):
    other = f"{system}-b"
    with control_plane.namespace("served-a") as first, control_plane.namespace("served-b") as second:
        for namespace, served, crds in ((system, first, "true"), (other, second, "false")):
            words = (*TRIAL, "--set", f"watchNamespaces={{{served}}}", "--set", f"crds.install={crds}")
            release("install", "leadsman", str(chart), "--namespace", namespace, "--create-namespace", *words)
        assert may(control_plane, f"{system}:{OPERATOR}", "patch", "pods", first)
        assert not may(control_plane, f"{system}:{OPERATOR}", "patch", "pods", second)
        assert may(control_plane, f"{other}:{BROKER}", "create", "tokenreviews.authentication.k8s.io")
    control_plane.kubectl("delete", "namespace", other, "--wait=false")
