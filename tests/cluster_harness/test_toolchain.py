"""Programs are compiled once, whole or not at all, and a missing compiler is said plainly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import ClusterError, UnavailableError, toolchain
from cluster.waiting import wait_for

# Stands in for the compiler only: what is tested is who calls it, when, and what becomes of its output.
COMPILER = """#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit 0; fi
while [ "$1" != -o ]; do shift; done
echo started >> "$LEDGER"
echo half > "$2"
while [ -e "$LEDGER.hold" ]; do sleep 0.02; done
[ ! -e "$LEDGER.fail" ] || { echo "undefined: everything" >&2; exit 1; }
echo whole > "$2"
"""
BUILD = "from cluster import toolchain; toolchain.build(['pause'])"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "go").write_text(COMPILER)
    (folder / "go").chmod(0o755)
    path = tmp_path / "ledger"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LEDGER", str(path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    return path


def started(ledger: Path) -> int:
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def build_elsewhere() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BUILD], stderr=subprocess.PIPE)


def test_two_runs_do_not_compile_the_same_twice(ledger: Path) -> None:
    Path(f"{ledger}.hold").touch()
    with build_elsewhere() as first:
        wait_for("the first to compile", lambda: started(ledger), seconds=60)
        with build_elsewhere() as second:
            assert second.stderr is not None
            assert b"waiting for another run" in second.stderr.readline()
            Path(f"{ledger}.hold").unlink()
            second.stderr.read()
            assert (first.wait(60), second.wait(60)) == (0, 0)

    assert started(ledger) == 1
    assert toolchain.path("pause").read_text() == "whole\n"


def test_a_killed_build_leaves_no_half_program(ledger: Path) -> None:
    Path(f"{ledger}.hold").touch()
    with build_elsewhere() as killed:
        wait_for("the build to have written half", lambda: started(ledger), seconds=60)
        killed.kill()
    assert not toolchain.path("pause").exists()
    Path(f"{ledger}.hold").unlink()

    toolchain.build(["pause"])

    assert toolchain.path("pause").read_text() == "whole\n"
    assert [entry.name for entry in toolchain.path("pause").parent.iterdir()] == ["pause"]


def test_a_failed_build_shows_the_compilers_words_and_leaves_nothing(ledger: Path) -> None:
    Path(f"{ledger}.fail").touch()

    with pytest.raises(ClusterError, match="undefined: everything"):
        toolchain.build(["pause"])

    assert toolchain.missing(["pause"]) == ["pause"]
    assert not list(toolchain.path("pause").parent.iterdir())


def test_a_program_that_is_there_needs_no_compiler(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain.build(["pause"])
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))

    toolchain.build(["pause"])

    assert started(ledger) == 1


@pytest.mark.usefixtures("ledger")
def test_without_a_compiler_the_reason_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    with pytest.raises(UnavailableError, match=r"no Go 1\.24 or newer on PATH"):
        toolchain.build(["pause"])
