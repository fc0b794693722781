"""`make demo` where something is missing: it is said before anything is started, and local mode steps in."""

import asyncio
import contextlib
import functools
import io
import socket
from pathlib import Path

import pytest
from demo import __main__ as command
from demo import ground, local, memory, story
from demo.outcome import Outcome
from demo.programs import DemoError
from demo.screen import Screen
from rich.console import Console

from cluster import UnavailableError, doctor, engine
from leadsman import Client


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["demo", "up"])
    monkeypatch.setenv("COLUMNS", "200")


KEPT = Outcome(56, 56, 0, 1, 0, 7, 0, 120, 61.5)


@pytest.fixture
def played(monkeypatch):
    """The story in local mode is only noted."""
    calls = []

    async def perform(_screen, *, quick):
        calls.append(quick)
        return KEPT, ["It was told."]

    monkeypatch.setattr(local, "perform", perform)
    return calls


def test_without_any_kubernetes_it_says_what_is_missing_and_tells_the_story_in_local_mode(
    monkeypatch, capsys, played
):
    def none(_):
        raise UnavailableError("no cluster is possible here:\n- Docker: no engine answers\n- a node needs root")

    monkeypatch.setattr(engine, "choose", none)
    assert command.main() == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == (
        "• local mode, processes in place of pods: no cluster is possible here: Docker: no engine answers; "
        "a node needs root"
    )
    assert last == KEPT.json_line()
    assert played == [False]
    assert memory.recall() is None


def test_a_machine_that_lacks_what_a_node_needs_falls_back_before_anything_is_started(monkeypatch, capsys, played):
    chosen = engine.Choice(engine.Built("leadsman-demo"), ["Docker: there is no docker program"])
    monkeypatch.setattr(engine, "choose", lambda _: chosen)
    tiers = [doctor.Tier("control-plane", missing=["Go 1.24 or newer"]), doctor.Tier("node", ["Go 1.24 or newer"])]
    monkeypatch.setattr(doctor, "examine", lambda: tiers)
    monkeypatch.setattr(ground, "of", lambda _: pytest.fail("the cluster was touched"))
    assert command.main() == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith("no cluster is possible here: Docker: there is no docker program; Go 1.24 or newer")
    assert played == [False]


def test_local_mode_can_be_asked_for(monkeypatch, capsys, played):
    monkeypatch.setattr(engine, "choose", lambda _: pytest.fail("a cluster was looked for"))
    monkeypatch.setattr("sys.argv", ["demo", "up", "--quick"])
    monkeypatch.setenv(ground.MODE_VARIABLE, "local")
    assert command.main() == 0
    assert played == [True]
    monkeypatch.setenv(ground.MODE_VARIABLE, "cloud")
    assert command.main() == 1
    assert "LEADSMAN_DEMO is 'cloud'; the only value is local" in capsys.readouterr().out


def test_on_a_named_cluster_it_asks_for_images_before_it_touches_anything(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.delenv(ground.IMAGE_VARIABLE, raising=False)
    monkeypatch.setenv(ground.AGENTS_VARIABLE, "registry.example/agents:1")
    monkeypatch.setattr(ground, "of", lambda _: pytest.fail("the cluster was touched"))
    assert command.main() == 1
    shown = capsys.readouterr().out
    assert f"Missing: {ground.IMAGE_VARIABLE}." in shown
    assert "docker build" in shown


def test_what_is_up_is_remembered_until_it_is_down():
    left = memory.LeftUp("kubeconfig", "/some/where", made_crds=True)
    memory.remember(left)
    assert memory.recall() == left
    memory.forget()
    assert memory.recall() is None


async def test_a_broker_that_goes_away_ends_the_story_with_one_line(monkeypatch):
    @contextlib.asynccontextmanager
    async def closed_port(*_):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        yield f"http://127.0.0.1:{port}"

    async def nothing(*_):
        await asyncio.Event().wait()
        yield

    class Bare:
        def token(self, *_):
            return "0123456789abcdef"

    monkeypatch.setattr(story, "port_forward", closed_port)
    monkeypatch.setattr(story.watching, "objects", nothing)
    monkeypatch.setattr(story, "Client", functools.partial(Client, unreachable_seconds=0.1))
    place = ground.Ground("built", Path("none"), Path("none"), Path("none"))
    with pytest.raises(DemoError, match="cannot reach the broker"):
        await story.perform(place, ground.Images(), Bare(), Screen(Console(file=io.StringIO())))
