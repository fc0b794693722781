"""The demo on kind: where a Docker engine answers."""

import shutil
from pathlib import Path

from demo.engine import AGENTS_IMAGE, CLUSTER, IMAGE, REPOSITORY
from demo.pods import Pod
from demo.programs import run
from demo.provision import helm, kubectl


class KindEngine:
    """A kind cluster of our own, with a kubeconfig of its own."""

    name = "kind"
    image = IMAGE
    agents_image = AGENTS_IMAGE

    def __init__(self) -> None:
        self.kubeconfig = Path.home() / ".cache" / "leadsman" / "kind.kubeconfig"
        self.kubectl = kubectl()
        self.helm = helm()

    def bring_up(self) -> None:
        """Create the cluster unless it is there."""
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        if CLUSTER in run(["kind", "get", "clusters"]).split():
            run(["kind", "export", "kubeconfig", "--name", CLUSTER, "--kubeconfig", self.kubeconfig])
            return
        config = REPOSITORY / "deploy" / "kind.yaml"
        run(
            [
                *("kind", "create", "cluster", "--name", CLUSTER, "--wait", "180s"),
                *("--config", config, "--kubeconfig", self.kubeconfig),
            ]
        )

    def provide_images(self) -> None:
        """Build both images with docker and load them into the nodes."""
        run(["docker", "build", "--tag", self.image, REPOSITORY], timeout_seconds=1800)
        agents = REPOSITORY / "examples" / "demo"
        run(["docker", "build", "--build-arg", f"BASE={self.image}", "--tag", self.agents_image, agents])
        run(["kind", "load", "docker-image", "--name", CLUSTER, self.image, self.agents_image])

    def kill_container(self, pod: Pod) -> str:
        """Kill it with the node's own containerd."""
        inside = ["docker", "exec", pod.node]
        run([*inside, "ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", pod.container_id])
        return "SIGKILL by the node's containerd"

    def take_down(self) -> None:
        """Delete the cluster and its kubeconfig."""
        if shutil.which("kind"):
            run(["kind", "delete", "cluster", "--name", CLUSTER])
        self.kubeconfig.unlink(missing_ok=True)

