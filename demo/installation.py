"""Installs the chart and the examples into a cluster, and takes them out again."""

import json
from pathlib import Path
from typing import Any

from demo import storage
from demo.ground import AGENTS_FOLDER, AGENTS_IMAGE, REPOSITORY, Ground, Images
from demo.programs import DemoError, run

SYSTEM = "leadsman"
AGENTS = "leadsman-demo"
RELEASE = "leadsman"
POOLS = ("browser", "llm")
_CRDS = ("capabilities.leadsman.dev", "workerpools.leadsman.dev")


class Installation:
    """The release and the agents' namespace on one cluster."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def kubectl(self, *words: str | Path, stdin: str | None = None) -> str:
        """Run kubectl against the engine's cluster, whatever the caller's own context is."""
        return run([self._ground.kubectl, "--kubeconfig", self._ground.kubeconfig, *words], stdin=stdin)

    def had_crds(self) -> bool:
        """Whether the cluster already knows our kinds."""
        return bool(self.kubectl("get", "crd", "--ignore-not-found", "-o", "name", *_CRDS).strip())

    def refuse_what_is_there(self) -> None:
        """Raise DemoError when somebody's cluster has Leadsman already, or a namespace of the demo's name."""
        found = self.kubectl(
            *("get", "deployments", "--all-namespaces", "--output", "json"),
            *("--selector", "app.kubernetes.io/name=leadsman,app.kubernetes.io/component=operator"),
        )
        items: list[Any] = json.loads(found)["items"]
        if items:
            where = items[0]["metadata"]["namespace"]
            raise DemoError(
                f"this cluster already runs Leadsman, in the namespace {where}; the demo keeps out of it"
            )
        for namespace in (SYSTEM, AGENTS):
            if self._has_namespace(namespace):
                raise DemoError(f"this cluster already has a namespace {namespace}, which the demo would delete")

    def install(self, images: Images) -> None:
        """Install or upgrade the release and wait until the broker and the operator are ready."""
        repository, _, tag = images.leadsman.rpartition(":")
        build = {"podAnnotations": {"build": images.build}}
        values = {
            "image": {"repository": repository, "tag": tag},
            "broker": {**build, "persistence": storage.chart_values(self._ground, self.kubectl)},
            "operator": build,
        }
        command: list[str | Path] = [
            *(self._ground.helm, "upgrade", "--install", RELEASE, REPOSITORY / "charts" / "leadsman"),
            *("--kubeconfig", self._ground.kubeconfig, "--namespace", SYSTEM, "--create-namespace"),
            *("--values", "-", "--wait", "--timeout", "180s"),
        ]
        try:
            run(command, stdin=json.dumps(values))
        except DemoError as error:
            raise DemoError(f"{error}\n{self._evidence()}") from error

    def _evidence(self) -> str:
        """Show the system's pods, and the last words of those that are not ready."""
        said = [self.kubectl("--namespace", SYSTEM, "get", "pods")]
        for pod in json.loads(self.kubectl("--namespace", SYSTEM, "get", "pods", "--output", "json"))["items"]:
            containers = pod["status"].get("containerStatuses", [])
            name = pod["metadata"]["name"]
            for option in () if all(one["ready"] for one in containers) else ((), ("--previous",)):
                try:
                    log = self.kubectl("--namespace", SYSTEM, "logs", name, "--tail", "5", *option)
                except DemoError:
                    continue  # it has not come so far as to say something
                said.append(f"--- {' '.join((name, *option))}\n{log}")
        return "\n".join(said)

    def apply_examples(self, images: Images) -> None:
        """Apply the queues and the fleets and wait until each fleet is ready, at zero workers."""
        if not self._has_namespace(AGENTS):
            self.kubectl("create", "namespace", AGENTS)
        self.kubectl("--namespace", AGENTS, "apply", "-f", AGENTS_FOLDER / "capabilities.yaml")
        pools = (AGENTS_FOLDER / "pools.yaml").read_text().replace(AGENTS_IMAGE, images.agents)
        self.kubectl("--namespace", AGENTS, "apply", "-f", "-", stdin=pools)
        names = [f"workerpool/{pool}" for pool in POOLS]
        self.kubectl("--namespace", AGENTS, "wait", *names, "--for=condition=Ready", "--timeout=60s")

    def token(self, namespace: str, account: str) -> str:
        """Make a token for the broker, in the name of a service account."""
        words = ("create", "token", account, "--audience", "leadsman", "--duration", "1h")
        return self.kubectl("--namespace", namespace, *words).strip()

    def remove(self, *, crds: bool) -> None:
        """Take out the pools, the release and the namespaces, and the kinds when nobody had them before."""
        self.kubectl("delete", "namespace", AGENTS, "--ignore-not-found", "--timeout=180s")
        helm: list[str | Path] = [self._ground.helm, "--kubeconfig", self._ground.kubeconfig, "--namespace", SYSTEM]
        run([*helm, "uninstall", RELEASE, "--ignore-not-found", "--wait"])
        self.kubectl("delete", "namespace", SYSTEM, "--ignore-not-found", "--timeout=180s")
        if crds:
            self.kubectl("delete", "crd", "--ignore-not-found", *_CRDS)

    def _has_namespace(self, name: str) -> bool:
        return bool(self.kubectl("get", "namespace", name, "--ignore-not-found", "-o", "name").strip())
