"""The files under `examples/` that are for `kubectl apply`; the others there are scenarios of the simulator."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def yaml_examples() -> list[Path]:
    """Every YAML file under `examples/`."""
    return sorted((ROOT / "examples").rglob("*.yaml"))


def is_manifest(path: Path) -> bool:
    """Whether a file holds Kubernetes objects: all of its documents say their kind, or none does."""
    kinds = {"kind" in document for document in yaml.safe_load_all(path.read_text())}
    if len(kinds) != 1:
        raise ValueError(f"{path} mixes Kubernetes objects with something else")
    return kinds.pop()
