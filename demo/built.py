"""The demo on a Kubernetes that is built and run on this machine, without Docker."""

from pathlib import Path

import cluster
from cluster import runs
from cluster.cluster import obstacle as no_node
from cluster.images import build_image, project_image

from demo.engine import AGENTS_IMAGE, CLUSTER, IMAGE, REPOSITORY
from demo.pods import Pod
from demo.programs import DemoError
from demo.provision import helm, kubectl


def obstacle() -> str | None:
    """Return why this machine cannot run it, or None."""
    return no_node()


class BuiltEngine:
    """A detached cluster of the harness in `tests/cluster`."""

    name = "built"
    image = IMAGE
    agents_image = AGENTS_IMAGE

    def __init__(self) -> None:
        self.kubeconfig = Path()
        self.kubectl = kubectl()
        self.helm = helm()
        self._cluster: cluster.Cluster | None = None

    def bring_up(self) -> None:
        """Build what is missing and start it, or attach to the one that is up."""
        try:
            up = runs.find(CLUSTER) is not None
            started = (
                cluster.Cluster.attach(CLUSTER) if up else cluster.Cluster.start(name=CLUSTER, detached=True)
            )
        except cluster.ClusterError as error:
            raise DemoError(str(error)) from error
        self._cluster = started
        self.kubeconfig = started.kubeconfig

    def provide_images(self) -> None:
        """Build both images and import them into the node."""
        try:
            project = project_image(self.image)
            folder = REPOSITORY / "examples" / "demo"
            agents = build_image(folder / "Dockerfile", self.agents_image, context=folder, base=project)
            for image in (project, agents):
                self._running().load_image(image)
        except cluster.ClusterError as error:
            raise DemoError(str(error)) from error

    def kill_container(self, pod: Pod) -> str:
        """Kill it with the node's own containerd."""
        kill = ("tasks", "kill", "-s", "SIGKILL", pod.container_id)
        self._running().node.execute("ctr", "--namespace", "k8s.io", *kill)
        return "SIGKILL by the node's containerd"

    def take_down(self) -> None:
        """End every process of the cluster, with its namespaces, mounts and routes."""
        try:
            runs.clear_named(CLUSTER)
        except cluster.ClusterError as error:
            raise DemoError(str(error)) from error

    def _running(self) -> cluster.Cluster:
        if self._cluster is None:
            raise DemoError("the cluster is not up yet")
        return self._cluster
