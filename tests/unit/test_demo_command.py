"""`make demo` where it cannot run: what is missing is said before anything is started, and it exits non-zero."""

import pytest
from demo import __main__ as command
from demo import ground, memory

from cluster import UnavailableError, engine


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["demo", "up"])
    monkeypatch.setenv("COLUMNS", "200")


def test_without_any_kubernetes_it_says_what_is_missing(monkeypatch, capsys):
    def none(_):
        raise UnavailableError("no cluster is possible here:\n- Docker: no engine answers\n- a node needs root")

    monkeypatch.setattr(engine, "choose", none)
    assert command.main() == 1
    shown = capsys.readouterr().out
    assert "Docker: no engine answers" in shown
    assert "a node needs root" in shown
    assert memory.recall() is None


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
