"""A real cluster with the real image, brought up by the demo itself: what it leaves up is what the tests use."""

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# One name per checkout: a run that was killed is cleared by the next, and no demo of a person's is met.
OURS = f"leadsman-e2e-{zlib.crc32(str(ROOT).encode()) & 0xFFFF:04x}"
CLUSTER = os.environ.setdefault("LEADSMAN_DEMO_CLUSTER", OURS)
sys.path.insert(0, str(Path(__file__).parent))

from demo import ground  # noqa: E402
from world import World  # noqa: E402

from cluster import UnavailableError, engine  # noqa: E402 - they read the name

_DEMO_SECONDS = 1800
KEEP = "LEADSMAN_E2E_KEEP"
"""Set it to leave the cluster up, and to use it again without another demo: for writing tests."""


@dataclass
class DemoRun:
    """What `make demo` printed and how it ended."""

    exit_code: int
    lines: list[str]

    @property
    def closing(self) -> dict[str, Any]:
        """The JSON object of the last line."""
        return json.loads(self.lines[-1])


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[engine.Engine, dict[str, str]]]:
    """The engine that the machine offers, and the environment of the demo; taken down at the end."""
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    try:
        chosen = engine.choose(CLUSTER, environment).engine
    except UnavailableError as reason:
        pytest.skip(f"no cluster that runs pods: {reason}")
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)]),
        "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state")),
        "COLUMNS": "160",
    }
    if not os.environ.get(KEEP):
        demo(environment, "down")
    yield chosen, environment
    if not os.environ.get(KEEP):
        gone = demo(environment, "down")
        assert gone.exit_code == 0, "\n".join(gone.lines)
        assert "is left" in gone.lines[-1]


def demo(environment: dict[str, str], command: str) -> DemoRun:
    """Run what `make demo` and `make demo-down` run. Progress goes to standard error, where pytest keeps it."""
    done = subprocess.run(
        [sys.executable, "-m", "demo", command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=_DEMO_SECONDS,
    )
    return DemoRun(done.returncode, done.stdout.rstrip().splitlines())


@pytest.fixture(scope="session")
def demo_run(place: tuple[engine.Engine, dict[str, str]]) -> DemoRun:
    """One run of the demo."""
    return demo(place[1], "up")


@pytest.fixture(scope="session")
def world(place: tuple[engine.Engine, dict[str, str]], request: pytest.FixtureRequest) -> World:
    """The cluster that the demo left up."""
    chosen, _ = place
    if not os.environ.get(KEEP):
        shown = request.getfixturevalue("demo_run")
        assert any("kubectl apply -f examples/demo" in line for line in shown.lines), "\n".join(shown.lines)
    return World(ground.of(chosen), ground.Images(), ROOT / "charts" / "leadsman")
