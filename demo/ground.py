"""The cluster that the demo runs on, and what differs between its kinds: images, and how to kill.

Which kind it is, and how it is brought up and down, is the test cluster's own choice (`cluster.engine`): a
KUBECONFIG that the caller names, else kind where Docker answers, else a Kubernetes built and run on this machine.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster, engine, helm
from cluster.images import build_image, project_image
from demo.killer_pod import kill_from_a_pod
from demo.pods import Pod
from demo.programs import DemoError, run

CLUSTER = os.environ.get("LEADSMAN_DEMO_CLUSTER", "leadsman-demo")
"""The name of the cluster that is made; the end-to-end tests give their own, so that they meet no demo."""
IMAGE = "leadsman:0.1.0"
AGENTS_IMAGE = "leadsman-demo:0.1.0"
MODE_VARIABLE = "LEADSMAN_DEMO"
"""Set to `local`: no cluster, whatever this machine could run."""
IMAGE_VARIABLE = "LEADSMAN_DEMO_IMAGE"
AGENTS_VARIABLE = "LEADSMAN_DEMO_AGENTS_IMAGE"
REPOSITORY = Path(__file__).resolve().parents[1]
KINDS = {
    "kubeconfig": "the cluster that KUBECONFIG names",
    "kind": "a kind cluster, because a Docker engine answers (the first time, this takes minutes)",
    "built": "built and run on this machine, without Docker (the first time, building it takes minutes)",
}
AGENTS_FOLDER = REPOSITORY / "examples" / "demo"


@dataclass(frozen=True, slots=True)
class Images:
    """What the cluster's nodes call the two images."""

    leadsman: str = IMAGE
    agents: str = AGENTS_IMAGE
    build: str = "named"
    """Changes with the content of the first, so that a second demo after a change runs what was just built."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A cluster that is up, and the tools that reach it."""

    kind: str
    kubeconfig: Path
    kubectl: Path
    helm: Path


def of(chosen: engine.Engine) -> Ground:
    """Bring the cluster up, or find it up, and return the way to it."""
    kubeconfig = chosen.up()
    path = engine.tools_path(chosen)
    kubectl = shutil.which("kubectl", path=path)
    if kubectl is None:
        raise DemoError("kubectl is not on PATH")
    return Ground(chosen.kind, kubeconfig, Path(kubectl), helm.helm())


def require_images(chosen: engine.Engine) -> None:
    """Raise DemoError, before anything is started, when images are needed that only the caller can provide."""
    missing = [name for name in (IMAGE_VARIABLE, AGENTS_VARIABLE) if not os.environ.get(name)]
    if chosen.kind == "kubeconfig" and missing:
        raise DemoError(
            "KUBECONFIG names a cluster of yours, whose nodes need images that they can pull.\n"
            f"Missing: {' and '.join(missing)}. Build and push them, then set these variables:\n"
            "  docker build -t IMAGE .\n"
            "  docker build -t AGENTS_IMAGE --build-arg BASE=IMAGE examples/demo\n"
            "To use kind or a cluster built on this machine instead, unset KUBECONFIG."
        )


def provide_images(ground: Ground) -> Images:
    """Build both images and make them known to the nodes; on a named cluster they are in a registry already."""
    if ground.kind == "kubeconfig":
        return Images(os.environ[IMAGE_VARIABLE], os.environ[AGENTS_VARIABLE])
    if ground.kind == "kind":
        run(["docker", "build", "--tag", IMAGE, REPOSITORY], timeout_seconds=1800)
        run(["docker", "build", "--build-arg", f"BASE={IMAGE}", "--tag", AGENTS_IMAGE, AGENTS_FOLDER])
        run(["kind", "load", "docker-image", "--name", CLUSTER, IMAGE, AGENTS_IMAGE])
        return Images(build=run(["docker", "image", "inspect", "--format", "{{.Id}}", IMAGE]).strip()[-12:])
    built = Cluster.attach(CLUSTER)
    project = project_image(IMAGE)
    built.load_image(project)
    built.load_image(build_image(AGENTS_FOLDER / "Dockerfile", AGENTS_IMAGE, context=AGENTS_FOLDER, base=project))
    return Images()


def kill_container(ground: Ground, images: Images, pod: Pod) -> str:
    """SIGKILL the pod's one container from outside, and return how, in words.

    From inside it cannot be done: nobody in a process namespace can kill its first process. Deleting the pod,
    even with force, sends SIGTERM first, and the worker would hand its task back.
    """
    kill = ["ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", pod.container_id]
    if ground.kind == "built":
        Cluster.attach(CLUSTER).node.execute(*kill)
        return "SIGKILL by the node's containerd"
    if ground.kind == "kind":
        run(["docker", "exec", pod.node, *kill])
        return "SIGKILL by the node's containerd"
    kill_from_a_pod(ground.kubectl, ground.kubeconfig, images.agents, pod)
    return "SIGKILL from a pod in the node's process namespace"
