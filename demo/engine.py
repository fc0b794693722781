"""Where the demo runs: what it needs of a cluster, and the choice between the three kinds."""

import os
import shutil
from pathlib import Path
from typing import Protocol

from demo.pods import Pod
from demo.programs import DemoError, works

CLUSTER = "leadsman-demo"
IMAGE = "leadsman:0.1.0"
AGENTS_IMAGE = "leadsman-demo:0.1.0"
REPOSITORY = Path(__file__).resolve().parents[1]


class Engine(Protocol):
    """A cluster that can be brought up, given images, and taken down again."""

    name: str
    kubeconfig: Path
    kubectl: Path
    helm: Path
    image: str
    agents_image: str

    def bring_up(self) -> None:
        """Start the cluster, or find the one that an earlier demo left up."""

    def provide_images(self) -> None:
        """Build `image` and `agents_image` and make them known to the cluster's nodes."""

    def kill_container(self, pod: Pod) -> str:
        """SIGKILL the pod's one container from outside and return how, in words."""

    def take_down(self) -> None:
        """Leave nothing behind. Works without `bring_up`, and when half of it is gone."""


def explicit_kubeconfig() -> Path | None:
    """Return the kubeconfig that the caller named, if any; the current context of ~/.kube is never used unasked."""
    named = os.environ.get("KUBECONFIG")
    return Path(named) if named else None


def docker_answers() -> bool:
    """Whether a Docker engine can be reached."""
    return works(["docker", "version", "--format", "{{.Server.Version}}"])


def choose(wanted: str = "auto") -> tuple[Engine, str]:
    """Return the engine and one sentence that says why it was taken.

    Raises DemoError that lists what is missing for each when none is possible.
    """
    from demo.built import BuiltEngine, obstacle  # noqa: PLC0415 - the harness is loaded only where it is used
    from demo.kind import KindEngine  # noqa: PLC0415
    from demo.named import NamedEngine  # noqa: PLC0415

    named = explicit_kubeconfig()
    if wanted == "kubeconfig" or (wanted == "auto" and named):
        if named is None:
            raise DemoError("no cluster is named: set KUBECONFIG")
        return NamedEngine(named), f"the cluster of KUBECONFIG={named}, because you named it"
    no_kind = kind_obstacle()
    if wanted in {"auto", "kind"} and no_kind is None:
        return KindEngine(), "a kind cluster, because a Docker engine answers"
    no_built = obstacle()
    if wanted in {"auto", "built"} and no_built is None:
        return BuiltEngine(), f"a Kubernetes built and run on this machine ({no_kind or 'as asked'})"
    reasons = {"kind": no_kind, "built": no_built}
    told = [f"  {engine}: {reason}" for engine, reason in reasons.items() if wanted in {"auto", engine}]
    raise DemoError(
        "no Kubernetes is possible here:\n"
        + "\n".join([*told, "  kubeconfig: KUBECONFIG is not set; name a cluster of yours to use it"])
    )


def kind_obstacle() -> str | None:
    """Return why kind cannot be used, or None."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    if not docker_answers():
        return "no Docker engine answers (`docker version` fails)"
    if shutil.which("kind") is None:
        return "Docker answers, but `kind` is not on PATH"
    return None
