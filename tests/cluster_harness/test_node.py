"""A real node runs pods from a real image, with services, DNS, tokens, logs, exec and a polite end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from cluster import Cluster
from cluster.base_image import base_image
from cluster.images import Image, build_image
from cluster.waiting import wait_for

TAG = "localhost/harness-web:1"
SERVER = """
import http.server, os, signal, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["POD"].encode())

def leave(*_):
    print("asked to leave", flush=True)
    open("/farewell/" + os.environ["POD"], "w").write("left politely")
    sys.exit(0)

signal.signal(signal.SIGTERM, leave)
print("serving", flush=True)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def image(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Image:
    context = tmp_path_factory.mktemp("context")
    (context / "server.py").write_text(SERVER)
    dockerfile = context / "Dockerfile"
    dockerfile.write_text(
        'ARG BASE\nFROM ${BASE}\nCOPY server.py /server.py\nUSER 65532:65532\nCMD ["python3", "/server.py"]\n'
    )
    built = build_image(dockerfile, TAG, context=context)
    cluster.load_image(built)
    return built


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("web") as name:
        yield name


@pytest.fixture(scope="module")
def farewell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("farewell")
    folder.chmod(0o777)
    for parent in folder.parents[:2]:
        parent.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def web(cluster: Cluster, image: Image, namespace: str, farewell: Path) -> dict[str, Any]:
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": image.tag,
        "imagePullPolicy": "Never",
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"containerPort": 8000}],
        "readinessProbe": {"httpGet": {"port": 8000}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "farewell", "mountPath": "/farewell"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {
        "terminationGracePeriodSeconds": 120,
        "containers": [container],
        "volumes": [{"name": "farewell", "hostPath": {"path": str(farewell)}}],
    }
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8000}]},
        },
    )
    cluster.kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=60s")
    found: dict[str, Any] = cluster.get("service", "web", "-n", namespace)
    return found


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("pods", "-n", namespace, "-l", "app=web")["items"]
    return found


def fetch(url: str) -> str | None:
    try:
        with urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except (URLError, OSError):
        return None


def in_pod(cluster: Cluster, namespace: str, program: str) -> str:
    return cluster.kubectl("-n", namespace, "exec", "deployment/web", "--", "python3", "-c", program).strip()


def test_the_host_reaches_pods_and_services(cluster: Cluster, namespace: str, web: dict[str, Any]) -> None:
    names = {pod["metadata"]["name"] for pod in pods(cluster, namespace)}

    for pod in pods(cluster, namespace):
        assert fetch(f"http://{pod['status']['podIP']}:8000/") == pod["metadata"]["name"]

    url = f"http://{web['spec']['clusterIP']}/"
    assert wait_for("the service to answer", lambda: fetch(url), seconds=60) in names


@pytest.mark.usefixtures("web")
def test_pods_reach_services_by_name(cluster: Cluster, namespace: str) -> None:
    names = {pod["metadata"]["name"] for pod in pods(cluster, namespace)}
    program = "import urllib.request as r; print(r.urlopen('http://{}/', timeout=30).read().decode())"

    for host in ("web", f"web.{namespace}", f"web.{namespace}.svc.cluster.local"):
        assert in_pod(cluster, namespace, program.format(host)) in names


@pytest.mark.usefixtures("web")
def test_a_pod_reaches_itself_through_its_service(cluster: Cluster, namespace: str) -> None:
    program = (
        "import os, urllib.request as r\n"
        "seen = {r.urlopen('http://web/', timeout=30).read().decode() for _ in range(40)}\n"
        "print(os.environ['POD'] in seen)"
    )

    assert in_pod(cluster, namespace, program) == "True"


@pytest.mark.usefixtures("web")
def test_a_service_account_token_is_accepted(cluster: Cluster, namespace: str) -> None:
    program = (
        "import json, ssl, urllib.request as r\n"
        "home = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
        "trust = ssl.create_default_context(cafile=home + 'ca.crt')\n"
        "body = {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}\n"
        "ask = r.Request('https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews',\n"
        "  data=json.dumps(body).encode(), headers={'Content-Type': 'application/json',\n"
        "  'Authorization': 'Bearer ' + open(home + 'token').read()})\n"
        "print(json.load(r.urlopen(ask, context=trust, timeout=30))['status']['userInfo']['username'])"
    )

    assert in_pod(cluster, namespace, program) == f"system:serviceaccount:{namespace}:default"


@pytest.mark.usefixtures("web")
def test_logs_come_back(cluster: Cluster, namespace: str) -> None:
    assert "serving" in cluster.kubectl("-n", namespace, "logs", "deployment/web")


@pytest.mark.usefixtures("web")
def test_a_deleted_pod_ends_politely(cluster: Cluster, namespace: str, farewell: Path) -> None:
    victim = pods(cluster, namespace)[0]["metadata"]["name"]

    cluster.kubectl("-n", namespace, "delete", "pod", victim, "--timeout=90s")  # its grace is longer

    assert (farewell / victim).read_text() == "left politely"


def test_helm_installs_into_the_cluster(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    chart = tmp_path / "tiny"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 0.1.0\n")
    (chart / "templates" / "map.yaml").write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tiny"}, "data": {"by": "helm"}})
    )

    cluster.helm("install", "tiny", str(chart), "--namespace", namespace)

    assert cluster.get("configmap", "tiny", "-n", namespace)["data"] == {"by": "helm"}


@pytest.mark.usefixtures("cluster")
def test_the_base_image_says_which_python_it_has() -> None:
    base = base_image()

    assert base.name == f"localhost/python:{base.python}"


def test_an_image_is_built_on_another_and_only_when_something_changed(
    cluster: Cluster, image: Image, namespace: str, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "said").write_text("built on top")
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text('ARG BASE\nFROM ${BASE}\nCOPY said /said\nCMD ["cat", "/said", "/server.py"]\n')

    upper = build_image(dockerfile, "harness-upper:1", context=context, base=image)
    written = upper.archive.stat().st_ino
    assert build_image(dockerfile, "harness-upper:1", context=context, base=image) == upper
    assert upper.archive.stat().st_ino == written

    cluster.load_image(upper)
    pod = ("upper", "--image=harness-upper:1", "--image-pull-policy=Never", "--restart=Never")
    cluster.kubectl("-n", namespace, "run", *pod)
    cluster.kubectl(
        "-n", namespace, "wait", "pod/upper", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"
    )
    assert "built on top" in cluster.kubectl("-n", namespace, "logs", "upper")
