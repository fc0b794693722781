"""What the chart makes of its values, read from helm's own output."""

import pytest

from cluster import ClusterError, helm

RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
WORKLOADS = [("StatefulSet", "leadsman-broker"), ("Deployment", "leadsman-operator")]


def pod_of(objects, kind, name):
    return objects.one(kind, name)["spec"]["template"]["spec"]


def arguments_of(objects, kind, name):
    return pod_of(objects, kind, name)["containers"][0]["args"]


def test_lint_has_nothing_to_warn_of(chart, helm_home, tmp_path):
    shown = helm.run(tmp_path / "none", helm_home, "lint", "--strict", str(chart))
    assert "0 chart(s) failed" in shown
    assert "[WARNING]" not in shown


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_every_pod_is_restricted_and_bounded(render, kind, name):
    pod = pod_of(render(), kind, name)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == RESTRICTED_CONTAINER
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_a_pod_writes_only_where_a_volume_is(render, kind, name):
    pod = pod_of(render({"broker": {"persistence": {"enabled": False}}}), kind, name)
    writable = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if not mount.get("readOnly")}
    assert writable <= {"/tmp", "/var/lib/leadsman"}


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_probes_ask_the_ops_port_and_never_the_api(render, kind, name):
    container = pod_of(render(), kind, name)["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["ops"] == 9090
    paths = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "readiness", "liveness")}
    assert {get["port"] for get in paths.values()} == {"ops"}
    assert paths["liveness"]["path"] == "/livez"
    assert paths["readiness"]["path"] == "/readyz"


def test_the_broker_trusts_exactly_the_operator_that_the_chart_runs(render):
    objects = render(namespace="prod", release="fleet")
    operator = pod_of(objects, "Deployment", "fleet-leadsman-operator")
    identity = f"system:serviceaccount:prod:{operator['serviceAccountName']}"
    identities = [
        argument
        for argument in arguments_of(objects, "StatefulSet", "fleet-leadsman-broker")
        if argument.startswith(("--operator-identity", "--admin-identity"))
    ]
    assert identities == [f"--operator-identity={identity}"]


def test_the_operator_shows_the_broker_a_token_made_for_it_alone(render):
    objects = render({"broker": {"auth": {"audience": "queue"}}})
    operator = pod_of(objects, "Deployment", "leadsman-operator")
    volume = next(volume for volume in operator["volumes"] if volume["name"] == "broker-token")
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert token["audience"] == "queue"
    mount = next(mount for mount in operator["containers"][0]["volumeMounts"] if mount["name"] == "broker-token")
    assert f"--broker-token-file={mount['mountPath']}/{token['path']}" in operator["containers"][0]["args"]
    assert "--audience=queue" in arguments_of(objects, "StatefulSet", "leadsman-broker")


def test_workers_and_operator_are_told_the_service_that_the_chart_makes(render):
    objects = render(namespace="prod")
    service = objects.one("Service", "leadsman-broker")
    port = next(port for port in service["spec"]["ports"] if port["name"] == "http")
    url = f"http://{service['metadata']['name']}.prod.svc:{port['port']}"
    arguments = arguments_of(objects, "Deployment", "leadsman-operator")
    assert f"--broker-url={url}" in arguments
    assert f"--worker-broker-url={url}" in arguments


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_services_select_the_pods_that_they_are_for(render, kind, name):
    objects = render()
    labels = objects.one(kind, name)["spec"]["template"]["metadata"]["labels"]
    selector = objects.one("Service", name)["spec"]["selector"]
    assert selector.items() <= labels.items()
    assert selector["app.kubernetes.io/component"] in name


def test_a_chart_upgrade_alone_changes_no_pod(render):
    for kind, name in WORKLOADS:
        template = render().one(kind, name)["spec"]["template"]
        assert not any(
            key in template["metadata"]["labels"] for key in ("helm.sh/chart", "app.kubernetes.io/version")
        )


def test_the_store_is_kept_in_a_claim_unless_it_is_asked_otherwise(render):
    def store(**persistence):
        return render({"broker": {"persistence": persistence}}).one("StatefulSet", "leadsman-broker")["spec"]

    kept = store()
    assert [claim["metadata"]["name"] for claim in kept["volumeClaimTemplates"]] == ["data"]
    trial = store(enabled=False)
    assert "volumeClaimTemplates" not in trial
    assert {"name": "data", "emptyDir": {}} in trial["template"]["spec"]["volumes"]
    own = render({"broker": {"persistence": {"existingClaim": "mine"}}}).one("StatefulSet", "leadsman-broker")[
        "spec"
    ]
    assert "volumeClaimTemplates" not in own
    claims = [volume.get("persistentVolumeClaim") for volume in own["template"]["spec"]["volumes"]]
    assert {"claimName": "mine"} in claims


def test_one_operator_needs_no_disruption_budget(render):
    assert "PodDisruptionBudget" in render().kinds()
    assert "PodDisruptionBudget" not in render({"operator": {"replicas": 1}}).kinds()


def test_listed_namespaces_get_a_role_each_and_nothing_else_is_cluster_wide_but_the_token_review(render):
    objects = render({"watchNamespaces": ["research", "support"]})
    roles = {
        (item["metadata"].get("namespace", "system"), item["metadata"]["name"])
        for item in objects
        if item["kind"] == "Role"
    }
    assert roles == {
        ("research", "leadsman-operator"),
        ("support", "leadsman-operator"),
        ("system", "leadsman-operator-election"),
    }
    cluster_wide = [item for item in objects if item["kind"] == "ClusterRole"]
    assert [rule["resources"] for item in cluster_wide for rule in item["rules"]] == [["tokenreviews"]]
    arguments = arguments_of(objects, "Deployment", "leadsman-operator")
    assert [one for one in arguments if one.startswith("--namespace")] == [
        "--namespace=research",
        "--namespace=support",
    ]


def test_with_static_tokens_and_listed_namespaces_nothing_is_cluster_wide(render):
    values = {
        "watchNamespaces": ["research"],
        "crds": {"install": False},
        "broker": {"auth": {"mode": "static", "tokensSecret": "tokens"}},
        "operator": {"brokerTokenSecret": "operator-token"},
    }
    objects = render(values)
    assert not {kind for kind in objects.kinds() if kind.startswith("Cluster")}
    assert "CustomResourceDefinition" not in objects.kinds()
    assert pod_of(objects, "StatefulSet", "leadsman-broker")["automountServiceAccountToken"] is False


def test_two_releases_in_two_namespaces_share_no_cluster_wide_name(render):
    def cluster_wide(namespace):
        return {
            (item["kind"], item["metadata"]["name"])
            for item in render(namespace=namespace)
            if item["kind"].startswith("ClusterRole")
        }

    assert cluster_wide("one")
    assert not cluster_wide("one") & cluster_wide("two")


def test_the_kinds_come_with_the_chart_and_outlive_it(render):
    crds = [item for item in render() if item["kind"] == "CustomResourceDefinition"]
    assert {crd["metadata"]["name"] for crd in crds} == {"capabilities.leadsman.dev", "workerpools.leadsman.dev"}
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds)
    loose = [item for item in render({"crds": {"keep": False}}) if item["kind"] == "CustomResourceDefinition"]
    assert not any("helm.sh/resource-policy" in crd["metadata"].get("annotations", {}) for crd in loose)
    assert "CustomResourceDefinition" not in render({"crds": {"install": False}}).kinds()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"brokr": {}}, "'brokr' not allowed"),
        ({"broker": {"replicas": 2}}, "'replicas' not allowed"),
        ({"broker": {"auth": {"mode": "Kubernetes"}}}, "/broker/auth/mode"),
        ({"broker": {"persistence": {"size": 10}}}, "/broker/persistence/size"),
        ({"broker": {"persistence": {"size": "10 GB"}}}, "/broker/persistence/size"),
        ({"operator": {"replicas": -1}}, "/operator/replicas"),
        ({"operator": {"resources": {"requests": {"memory": "lots"}}}}, "/operator/resources/requests/memory"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"watchNamespaces": ["Not A Name"]}, "/watchNamespaces/0"),
        ({"crds": {"install": "yes"}}, "/crds/install"),
        (
            {"broker": {"auth": {"mode": "static"}}},
            "name the Secret that holds the tokens in broker.auth.tokensSecret",
        ),
        (
            {"broker": {"auth": {"mode": "static", "tokensSecret": "t"}}},
            "name the Secret that holds the operator's token in operator.brokerTokenSecret",
        ),
        ({"operator": {"serviceAccount": {"create": False}}}, "the operator needs a service account of its own"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(render, values, words):
    with pytest.raises(ClusterError, match="helm template") as refused:
        render(values)
    assert words in str(refused.value)
