"""What the demo left up, kept outside the checkout so that `make demo-down` finds it from anywhere."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LeftUp:
    """A demo that is up: on which kind of cluster, and whether our kinds were new to it."""

    kind: str
    kubeconfig: str
    made_crds: bool


def _file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "leadsman" / "demo.json"


def remember(left: LeftUp) -> None:
    """Write it down, before the first thing is made."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(left)))


def recall() -> LeftUp | None:
    """Read it back; None when no demo is up."""
    try:
        return LeftUp(**json.loads(_file().read_text()))
    except FileNotFoundError:
        return None


def forget() -> None:
    """Nothing is up any more."""
    _file().unlink(missing_ok=True)
