"""Builds images with buildah, without a daemon, a registry or a network, and keeps them as files.

An image is kept under the hash of all that went into it, so an unchanged checkout builds nothing.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import debian, wheels
from .base_image import BaseImage, base_image
from .errors import ClusterError
from .locking import locked
from .places import REPOSITORY, cache_root, digest, on_overlay, scratch_in
from .processes import tied
from .progress import step

EXTRAS = ("broker", "operator")
# Kept image files of this project's tags; older ones are removed.
_KEEP = 6


@dataclass(frozen=True)
class Image:
    """An image in a file (docker-archive), ready to be imported by a cluster."""

    tag: str
    archive: Path


def project_image(tag: str, *, dockerfile: Path | None = None, include: Sequence[Path] = ()) -> Image:
    """Build the project's image from this checkout.

    The build context holds ``wheels/`` (the project and its locked run-time dependencies) and a copy
    of each path of ``include``, at its place relative to the repository.
    """
    base = base_image()
    with tempfile.TemporaryDirectory(prefix="leadsman-image-") as scratch:
        context = Path(scratch) / "context"
        shutil.copytree(wheels.dependency_wheels(base.python, EXTRAS), context / "wheels")
        with step("building the project's wheel"):
            wheel = wheels.project_wheel(Path(scratch) / "project")
        shutil.copy2(wheel, context / "wheels" / wheel.name)
        for path in include:
            _copy_into(context, path)
        return build_image(dockerfile or REPOSITORY / "Dockerfile", tag, context=context, base=base)


def build_image(dockerfile: Path, tag: str, *, context: Path, base: BaseImage | Image | None = None) -> Image:
    """Build an image from a Dockerfile that starts from ``ARG BASE``.

    ``base`` is the Debian Python image unless another built image is given. Raises ClusterError with
    the end of buildah's output when the build fails.
    """
    base = base or base_image()
    base_key = base.key if isinstance(base, BaseImage) else base.archive.stem
    key = digest(tag.encode(), base_key.encode(), dockerfile.read_bytes(), *_contents(context))
    folder = cache_root() / "images"
    folder.mkdir(exist_ok=True)
    archive = folder / f"{key}.tar"
    if archive.exists():
        archive.touch()
        return Image(tag, archive)
    debian.install(debian.IMAGES)
    with locked(folder / "lock", waiting_for="its image build"):
        if not archive.exists():
            with step(f"building image {tag}"), scratch_in(folder) as scratch:
                _build(scratch, dockerfile, tag, context, base, archive)
            _forget_old(folder)
    return Image(tag, archive)


def _build(
    scratch: Path, dockerfile: Path, tag: str, context: Path, base: BaseImage | Image, archive: Path
) -> None:
    policy = scratch / "policy.json"
    policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
    trust = ("--signature-policy", str(policy))
    name = _qualified(tag)
    if isinstance(base, BaseImage):
        base_name, base_key = base.name, base.key
    else:
        base_name, base_key = _qualified(base.tag), base.archive.stem
    written = scratch / "image.tar"
    # What a killed build left: the lock is ours.
    _buildah(scratch, "rm", "--all")
    _buildah(scratch, "rmi", "--prune")
    stored = _stored()
    if stored.get(base_name) != base_key:
        _buildah(scratch, "pull", *trust, f"docker-archive:{base.archive}")
        _remember(base_name, base_key)
    _buildah(
        scratch,
        "build",
        *("--isolation", "chroot", "--network", "host", "--format", "docker", "--pull-never"),
        *(*trust, "--build-arg", f"BASE={base_name}", "--file", str(dockerfile), "--tag", name, str(context)),
    )
    _buildah(scratch, "push", *trust, name, f"docker-archive:{written}:{name}")
    written.replace(archive)
    _remember(name, archive.stem)


def _stored() -> dict[str, str]:
    """Return which content buildah's store has under each name, so that a base is not read in twice."""
    try:
        names: dict[str, str] = json.loads((_store() / "names.json").read_text())
    except FileNotFoundError:
        return {}
    return names


def _remember(name: str, key: str) -> None:
    fresh = _store() / "names.json.new"
    fresh.write_text(json.dumps({**_stored(), name: key}))
    fresh.replace(_store() / "names.json")


def _store() -> Path:
    return cache_root() / "buildah" / ("vfs" if on_overlay(cache_root()) else "overlay")


def _buildah(scratch: Path, *arguments: str) -> None:
    store = _store()
    storage = ["--root", str(store / "root"), "--runroot", str(store / "run"), "--storage-driver", store.name]
    # In namespaces of its own: no mount stays, and no build outlives a killed harness.
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = subprocess.run(
        tied([*alone, debian.program("buildah"), *storage, *arguments]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    if done.returncode:
        end = "\n".join(done.stdout.strip().splitlines()[-30:])
        raise ClusterError(f"buildah {arguments[0]} failed:\n{end}")


def _qualified(tag: str) -> str:
    """Return the full name that a kubelet makes of a short one."""
    first, slash, _ = tag.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return tag
    return f"docker.io/{tag}" if slash else f"docker.io/library/{tag}"


def _contents(context: Path) -> list[bytes]:
    parts = []
    for path in sorted(context.rglob("*")):
        if path.is_file():
            mode = b"x" if os.access(path, os.X_OK) else b"-"
            parts += [str(path.relative_to(context)).encode(), mode, path.read_bytes()]
    return parts


def _copy_into(context: Path, path: Path) -> None:
    source = path if path.is_absolute() else REPOSITORY / path
    target = context / source.relative_to(REPOSITORY)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _forget_old(folder: Path) -> None:
    kept = sorted(folder.glob("*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for archive in kept[_KEEP:]:
        archive.unlink(missing_ok=True)
