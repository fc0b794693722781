"""The demo on a cluster that the caller named with KUBECONFIG: in two namespaces of its own, images given."""

import json
import os
from pathlib import Path

from demo.pods import Pod
from demo.programs import DemoError, run
from demo.provision import helm, kubectl

IMAGE_VARIABLE = "LEADSMAN_DEMO_IMAGE"
AGENTS_VARIABLE = "LEADSMAN_DEMO_AGENTS_IMAGE"

# Nobody inside a process namespace can SIGKILL its first process, so the kill comes from the node's own.
_KILL = """
import os, pathlib, signal, sys
found = [int(p.parent.name) for p in pathlib.Path("/proc").glob("[0-9]*/cgroup") if sys.argv[1] in p.read_text()]
for pid in found:
    os.kill(pid, signal.SIGKILL)
sys.exit(0 if found else "no process of that container on this node")
"""


class NamedEngine:
    """Somebody's cluster. Its nodes pull the images from a registry that they can reach."""

    name = "kubeconfig"

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.kubectl = kubectl()
        self.helm = helm()
        self.image = os.environ.get(IMAGE_VARIABLE, "")
        self.agents_image = os.environ.get(AGENTS_VARIABLE, "")

    def bring_up(self) -> None:
        """Check that it answers and that it is told where the images are."""
        missing = [name for name in (IMAGE_VARIABLE, AGENTS_VARIABLE) if not os.environ.get(name)]
        if missing:
            raise DemoError(
                f"KUBECONFIG names a cluster of yours, whose nodes need images that they can pull: set "
                f"{' and '.join(missing)}.\nBuild them with `docker build -t IMAGE .` and `docker build -t "
                f"AGENTS_IMAGE --build-arg BASE=IMAGE examples/demo`, and push them.\n"
                f"To use kind or the built cluster instead, unset KUBECONFIG."
            )
        run([self.kubectl, "--kubeconfig", self.kubeconfig, "get", "--raw", "/readyz"], timeout_seconds=30)

    def provide_images(self) -> None:
        """Nothing to do: the images are in a registry."""

    def kill_container(self, pod: Pod) -> str:
        """Kill it from a short-lived pod that sees the node's processes."""
        name = f"kill-{pod.uid[:8]}"
        killer = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": pod.namespace},
            "spec": {
                "nodeName": pod.node,
                "hostPID": True,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "kill",
                        "image": self.agents_image,
                        "command": ["python3", "-c", _KILL, pod.container_id],
                        "securityContext": {"privileged": True, "runAsUser": 0},
                    }
                ],
            },
        }
        kube = [self.kubectl, "--kubeconfig", self.kubeconfig, "--namespace", pod.namespace]
        run([*kube, "create", "-f", "-"], stdin=json.dumps(killer))
        run([*kube, "wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"])
        run([*kube, "delete", "pod", name, "--wait=false"])
        return "SIGKILL from a pod in the node's process namespace"

    def take_down(self) -> None:
        """Nothing of the cluster itself is ours; the installation is removed by its own step."""
