"""A whole cluster: the control plane and one node that runs pods. Needs root on Linux."""

import sys
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from . import debian, toolchain
from .control_plane import PORTS, ControlPlane
from .errors import UnavailableError
from .images import Image
from .node import Node
from .progress import step
from .runs import Run, owner_is_root


def obstacle() -> str | None:
    """Return why this machine cannot have a node at all, or None."""
    if sys.platform != "linux":
        return f"a node needs Linux, this is {sys.platform}"
    if not owner_is_root():
        return "a node needs root (network namespaces, cgroups, mounts)"
    return None


class Cluster(ControlPlane):
    """A control plane with a node: pods run, and services and pods can be reached from the host."""

    def __init__(self, run: Run, address: IPv4Address | None = None) -> None:
        # Pods must reach the API server, so it listens on the host's end of the link.
        super().__init__(run, address or run.plan.host)
        self.node = Node(run)

    @classmethod
    def start(cls, *, name: str | None = None, detached: bool = False) -> Self:
        """Install and build what is missing, start everything and return once pods can run.

        Raises UnavailableError when this machine cannot have a node.
        """
        reason = obstacle()
        if reason:
            raise UnavailableError(reason)
        debian.install(debian.NODE)
        toolchain.build([*toolchain.CONTROL_PLANE, *toolchain.NODE])
        run = Run.create(kind="node", name=name, detached=detached, ports=PORTS)
        self = cls(run)
        try:
            self.node.make_namespaces()
            self.bring_up()
            self.node.start(self)
            run.hand_over()
        except BaseException:
            self.stop()
            raise
        return self

    @classmethod
    def attach(cls, name: str) -> Self:
        """Return the cluster of this name that ``python -m cluster up`` started."""
        self = super().attach(name)
        self.node.attach()
        return self

    def load_image(self, image: Image | Path) -> None:
        """Import an image (or a docker-archive) so that pods can use it; done once per file."""
        archive = image.archive if isinstance(image, Image) else image
        imported = self.run.folder / "imported"
        imported.mkdir(exist_ok=True)
        mark = imported / archive.stem
        if not mark.exists():
            with step(f"importing {image.tag if isinstance(image, Image) else archive.name} into the node"):
                self.node.load_image(archive)
            mark.touch()

    def stop(self) -> None:
        """Take everything down; nothing of it is left on the machine."""
        super().stop()
        self.node.reap()
