"""Which Kubernetes the demo uses, and the few things it does with it, whichever it is.

A kubeconfig that the caller names wins; then kind, where a Docker engine answers; then the cluster
that this harness builds. The user's own kubeconfig file is never read or written unasked.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from . import cluster as built_cluster
from . import helm, runs, toolchain
from .cluster import Cluster
from .errors import ClusterError, UnavailableError
from .images import project_image
from .places import REPOSITORY, cache_root
from .progress import step

KIND_CONFIG = REPOSITORY / "deploy" / "kind.yaml"
DEFAULT_NAME = "leadsman"


class Engine(Protocol):
    """A cluster that the demo can use."""

    kind: str

    def up(self) -> Path:
        """Bring the cluster up, or find it up, and return its kubeconfig."""

    def provide_image(self, tag: str, include: Sequence[Path] = ()) -> None:
        """Build the project's image from this checkout and make it known to the cluster."""

    def down(self) -> None:
        """Take down what ``up`` made; a cluster that the caller named stays."""


@dataclass(frozen=True)
class Choice:
    """The engine chosen, and a line for each that was passed over."""

    engine: Engine
    passed_over: list[str] = field(default_factory=list)


def choose(name: str = DEFAULT_NAME, environment: Mapping[str, str] = os.environ) -> Choice:
    """Choose an engine; raises UnavailableError naming all that is missing when there is none."""
    named = environment.get("KUBECONFIG")
    if named:
        return Choice(Named(Path(named)))
    passed_over = []
    docker = _docker_obstacle()
    if docker is None:
        return Choice(Kind(name))
    passed_over.append(docker)
    reason = built_cluster.obstacle()
    if reason is None:
        return Choice(Built(name), passed_over)
    raise UnavailableError("no cluster is possible here:\n- " + "\n- ".join([*passed_over, reason]))


@dataclass
class Named:
    """The cluster of a kubeconfig that the caller named."""

    kubeconfig: Path
    kind: str = "kubeconfig"

    def up(self) -> Path:
        """Return the kubeconfig after a look whether it is a file."""
        if not self.kubeconfig.is_file():
            raise ClusterError(f"KUBECONFIG={self.kubeconfig} is not a file")
        return self.kubeconfig

    def provide_image(self, tag: str, include: Sequence[Path] = ()) -> None:
        """Refuse: only its owner can put an image where that cluster finds it."""
        raise UnavailableError(
            f"{tag} must be pushed to a registry that the cluster of {self.kubeconfig} can pull from"
        )

    def down(self) -> None:
        """Leave the caller's cluster alone."""


@dataclass
class Kind:
    """A cluster in Docker containers, made by kind."""

    name: str
    kind: str = "kind"

    @property
    def kubeconfig(self) -> Path:
        """A file of our own, so that the user's contexts stay as they are."""
        return cache_root() / f"kind-{self.name}.kubeconfig"

    def up(self) -> Path:
        """Create the cluster unless it exists."""
        if self.name in _run("kind", "get", "clusters").split():
            _run("kind", "export", "kubeconfig", "--name", self.name, "--kubeconfig", str(self.kubeconfig))
        else:
            with step(f"creating kind cluster {self.name}"):
                _run(
                    *("kind", "create", "cluster", "--name", self.name, "--wait", "120s"),
                    *("--config", str(KIND_CONFIG), "--kubeconfig", str(self.kubeconfig)),
                )
        return self.kubeconfig

    def provide_image(self, tag: str, include: Sequence[Path] = ()) -> None:
        """Build with Docker and load into the kind nodes."""
        with step(f"building image {tag} with Docker"):
            _run("docker", "build", "--tag", tag, str(REPOSITORY))
        with step(f"loading {tag} into kind"):
            _run("kind", "load", "docker-image", tag, "--name", self.name)

    def down(self) -> None:
        """Delete the cluster and the kubeconfig."""
        _run("kind", "delete", "cluster", "--name", self.name, "--kubeconfig", str(self.kubeconfig))
        self.kubeconfig.unlink(missing_ok=True)


@dataclass
class Built:
    """The cluster of this harness, left running."""

    name: str
    kind: str = "built"

    def up(self) -> Path:
        """Start the cluster unless it is up."""
        if runs.find(self.name) is None:
            Cluster.start(name=self.name, detached=True)
        return Cluster.attach(self.name).kubeconfig

    def provide_image(self, tag: str, include: Sequence[Path] = ()) -> None:
        """Build without Docker and import."""
        Cluster.attach(self.name).load_image(project_image(tag, include=include))

    def down(self) -> None:
        """Take the cluster down."""
        runs.clear_named(self.name)


def tools_path(engine: Engine) -> str:
    """Return a PATH in which ``kubectl`` and ``helm`` work for this engine."""
    folders = [str(helm.helm().parent)]
    if engine.kind == "built" or shutil.which("kubectl") is None:
        toolchain.build(["kubectl"])
        folders.insert(0, str(toolchain.path("kubectl").parent))
    return os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])


def _docker_obstacle() -> str | None:
    if shutil.which("docker") is None:
        return "Docker: there is no docker program"
    try:
        done = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except subprocess.TimeoutExpired:
        return "Docker: no engine answered within 10 s"
    if done.returncode:
        return "Docker: no engine answers"
    if shutil.which("kind") is None:
        return "kind: a Docker engine answers, but there is no kind program"
    return None


def _run(*command: str) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
