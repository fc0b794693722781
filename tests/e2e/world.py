"""What an end-to-end test holds in its hands: kubectl, helm, the broker, and the worker pods."""

import contextlib
import json
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from demo.ground import Ground, Images, kill_container
from demo.installation import SYSTEM, Installation
from demo.pods import Pod
from demo.programs import run

from leadsman import SyncClient

T = TypeVar("T")
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


class World:
    """A cluster in which the chart is installed."""

    def __init__(self, ground: Ground, images: Images, chart: Path) -> None:
        self.ground = ground
        self.images = images
        self.chart = chart
        self._installation = Installation(ground)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl; raises DemoError with its own words."""
        return self._installation.kubectl(*words, stdin=stdin)

    def get(self, *words: str) -> Any:
        """What `kubectl get` finds, decoded."""
        return json.loads(self.kubectl("get", *words, "--output", "json"))

    def apply(self, namespace: str, *objects: dict[str, Any]) -> None:
        """Apply objects as `kubectl apply` does."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("--namespace", namespace, "apply", "-f", "-", stdin=text)

    def helm(self, *words: str) -> str:
        """Run helm on the release that the demo made."""
        return self.helm_in(SYSTEM, *words)

    def helm_in(self, namespace: str, *words: str, values: dict[str, Any] | None = None) -> str:
        """Run helm in a namespace, with values if there are any."""
        given = ["--values", "-"] if values else []
        command = [self.ground.helm, *words, "--kubeconfig", self.ground.kubeconfig, "--namespace", namespace]
        return run([*command, *given], stdin=json.dumps(values) if values else None)

    @contextlib.contextmanager
    def namespace(self) -> Iterator[str]:
        """A namespace for one test, which admits nothing but restricted pods."""
        name = f"e2e-{secrets.token_hex(3)}"
        self.kubectl("create", "namespace", name)
        self.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false")

    @contextlib.contextmanager
    def client(self, namespace: str) -> Iterator[SyncClient]:
        """A producer of the namespace, through a port-forward and with a token of its default account."""
        token = self._installation.token(namespace, "default")
        with (
            self.forwarded(SYSTEM, "leadsman-broker") as url,
            SyncClient(url, namespace=namespace, token=token) as client,
        ):
            yield client

    @contextlib.contextmanager
    def forwarded(self, namespace: str, service: str) -> Iterator[str]:
        """The URL of a broker's Service from here, while the block runs."""
        command = ["--namespace", namespace, "port-forward", f"service/{service}", ":8080"]
        process = subprocess.Popen(
            [self.ground.kubectl, "--kubeconfig", self.ground.kubeconfig, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            line = process.stdout.readline()
            port = _FORWARDING.search(line)
            assert port, f"no port-forward: {line}"
            yield f"http://127.0.0.1:{port[1]}"
        finally:
            process.terminate()
            process.communicate()

    def pods(self, namespace: str, pool: str) -> list[Pod]:
        """The pool's pods as they are."""
        found = self.get("pods", "--namespace", namespace, "--selector", f"leadsman.dev/pool={pool}")
        return [Pod.read(item) for item in found["items"]]

    def replicas(self, namespace: str, pool: str) -> int:
        """What the pool's Deployment asks for."""
        return int(self.get("deployment", pool, "--namespace", namespace)["spec"]["replicas"])

    def events(self, namespace: str, pool: str) -> str:
        """What `kubectl events --for` shows."""
        return self.kubectl("--namespace", namespace, "events", "--for", f"workerpool/{pool}")

    def kill(self, pod: Pod) -> str:
        """SIGKILL the worker in a pod, from outside."""
        return kill_container(self.ground, self.images, pod)


def until(what: str, check: Callable[[], T | None], seconds: float = 90) -> T:
    """Look until `check` returns something true; fail with `what` when time is up."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)
    return found


def capability(name: str, **spec: Any) -> dict[str, Any]:
    """A Capability with a short lease."""
    body = {"lease": {"seconds": 3}, **spec}
    return {"apiVersion": "leadsman.dev/v1alpha1", "kind": "Capability", "metadata": {"name": name}, "spec": body}


def pool(name: str, image: str, **spec: Any) -> dict[str, Any]:
    """A WorkerPool that leaves soon after it is not needed."""
    body = {"maxReplicas": 2, "image": image, "scaling": {"scaleIn": {"idleSeconds": 3}}, **spec}
    return {"apiVersion": "leadsman.dev/v1alpha1", "kind": "WorkerPool", "metadata": {"name": name}, "spec": body}
