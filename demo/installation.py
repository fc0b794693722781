"""Installs the chart and the examples into a cluster, and takes them out again."""

import json
from pathlib import Path
from typing import Any

from demo.engine import REPOSITORY, Engine
from demo.programs import DemoError, run

SYSTEM = "leadsman"
AGENTS = "leadsman-demo"
RELEASE = "leadsman"
EXAMPLES = REPOSITORY / "examples" / "demo"
POOLS = ("browser", "llm")
_CRDS = ("capabilities.leadsman.dev", "workerpools.leadsman.dev")


class Installation:
    """The release and the demo's namespace on one cluster."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def kubectl(self, *words: str | Path, stdin: str | None = None) -> str:
        """Run kubectl against the engine's cluster, whatever the caller's own context is."""
        return run([self._engine.kubectl, "--kubeconfig", self._engine.kubeconfig, *words], stdin=stdin)

    def had_crds(self) -> bool:
        """Whether the cluster already knows our kinds."""
        return bool(self.kubectl("get", "crd", "--ignore-not-found", "-o", "name", *_CRDS).strip())

    def refuse_another(self) -> None:
        """Raise DemoError when somebody else's Leadsman already runs in this cluster."""
        found = self.kubectl(
            *("get", "deployments", "--all-namespaces", "-o", "json"),
            *("--selector", "app.kubernetes.io/name=leadsman,app.kubernetes.io/component=operator"),
        )
        items: list[Any] = json.loads(found)["items"]
        if items:
            where = items[0]["metadata"]["namespace"]
            raise DemoError(f"this cluster already runs Leadsman, in the namespace {where}; the demo keeps out of it")

    def install(self) -> None:
        """Install or upgrade the release and wait until the broker and the operator are ready."""
        repository, _, tag = self._engine.image.rpartition(":")
        settings = {
            "image.repository": repository,
            "image.tag": tag,
            # The demo's tasks need not outlive the demo's broker.
            "broker.persistence.enabled": "false",
        }
        run(
            [
                *(self._engine.helm, "upgrade", "--install", RELEASE, REPOSITORY / "charts" / "leadsman"),
                *("--kubeconfig", self._engine.kubeconfig, "--namespace", SYSTEM, "--create-namespace"),
                *("--wait", "--timeout", "180s"),
                *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
            ]
        )

    def apply_examples(self) -> None:
        """Apply the queues and the fleets and wait until each fleet is ready, at zero workers."""
        self.kubectl("create", "namespace", AGENTS) if not self._has_namespace() else None
        self.kubectl("--namespace", AGENTS, "apply", "-f", EXAMPLES / "capabilities.yaml")
        pools = (EXAMPLES / "pools.yaml").read_text()
        self.kubectl(
            *("--namespace", AGENTS, "apply", "-f", "-"),
            stdin=pools.replace("leadsman-demo:0.1.0", self._engine.agents_image),
        )
        names = [f"workerpool/{pool}" for pool in POOLS]
        self.kubectl("--namespace", AGENTS, "wait", *names, "--for=condition=Ready", "--timeout=60s")

    def token(self, namespace: str, account: str) -> str:
        """Make a token for the broker, in the name of a service account."""
        words = ("create", "token", account, "--audience", "leadsman", "--duration", "1h")
        return self.kubectl("--namespace", namespace, *words).strip()

    def operator_token(self) -> str:
        """Make a token with which the statistics of every queue can be read."""
        return self.token(SYSTEM, f"{RELEASE}-operator")

    def remove(self, *, crds: bool) -> None:
        """Take out the pools, the release and the namespaces, and the kinds when nobody had them before."""
        self.kubectl("delete", "namespace", AGENTS, "--ignore-not-found", "--timeout=180s")
        helm = [self._engine.helm, "--kubeconfig", self._engine.kubeconfig, "--namespace", SYSTEM]
        run([*helm, "uninstall", RELEASE, "--ignore-not-found", "--wait"])
        self.kubectl("delete", "namespace", SYSTEM, "--ignore-not-found", "--timeout=180s")
        if crds:
            self.kubectl("delete", "crd", "--ignore-not-found", *_CRDS)

    def _has_namespace(self) -> bool:
        return bool(self.kubectl("get", "namespace", AGENTS, "--ignore-not-found", "-o", "name").strip())
