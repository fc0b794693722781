"""Wraps a file tree as a docker-archive, the one form that containerd and buildah both take from a file."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

from .node_config import PAUSE_IMAGE

_EPOCH = "1970-01-01T00:00:00Z"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def wrap_layer(layer: Path, destination: Path, *, tag: str, config: dict[str, Any]) -> Path:
    """Write an image of one layer (an uncompressed tar of a root file system)."""
    with layer.open("rb") as stream:
        layer_id = hashlib.file_digest(stream, "sha256").hexdigest()
    document = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_id}"]},
            # buildah refuses a layer that no step of the history accounts for.
            "history": [{"created": _EPOCH, "created_by": "leadsman test cluster"}],
            "created": _EPOCH,
        }
    ).encode()
    config_name = f"{hashlib.sha256(document).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [tag], "Layers": ["layer.tar"]}]
    temporary = destination.with_name(f".{destination.name}.new")
    with tarfile.open(temporary, "w") as archive:
        _add(archive, "manifest.json", json.dumps(manifest).encode())
        _add(archive, config_name, document)
        archive.add(layer, arcname="layer.tar")
    temporary.replace(destination)
    return destination


def pause_archive(program: Path, destination: Path) -> Path:
    """Write the image of the process that holds a pod's namespaces."""
    layer = destination.with_name("pause-layer.tar")
    with tarfile.open(layer, "w") as archive:
        _add(archive, "pause", program.read_bytes(), mode=0o755)
    config = {"Entrypoint": ["/pause"], "User": "65535:65535"}
    wrap_layer(layer, destination, tag=PAUSE_IMAGE, config=config)
    layer.unlink()
    return destination


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    archive.addfile(entry, io.BytesIO(content))
