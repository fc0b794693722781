"""`make demo` on a machine that can run no cluster: the same story in local mode, every promise kept."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLOSING = {
    "submitted", "completed", "lost", "reclaimed", "busy_workers_evicted", "peak_replicas", "final_replicas",
    "enqueue_to_scale_ms", "seconds",
}  # fmt: skip


def demo(home: Path, *arguments: str, by: tuple[str, ...] = (), **variables: str) -> list[str]:
    """Run it where there is no Docker, by another program if told; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEADSMAN_", "KUBECONFIG"))}
    paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    here = {"PATH": str(home), "HOME": str(home), "PYTHONPATH": paths, "COLUMNS": "200", "TMPDIR": str(home)}
    done = subprocess.run(
        [*by, sys.executable, "-m", "demo", "up", *arguments], cwd=ROOT, env=kept | here | variables,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout.rstrip().splitlines()


def check_promises(lines: list[str], tasks: int) -> None:
    closing = json.loads(lines[-1])
    assert set(closing) == CLOSING
    assert closing["submitted"] == closing["completed"] == tasks
    assert closing["lost"] == closing["busy_workers_evicted"] == closing["final_replicas"] == 0
    assert closing["reclaimed"] >= 1
    assert closing["peak_replicas"] == 7
    assert closing["enqueue_to_scale_ms"] > 0
    shown = "\n".join(lines)
    for words in ("browser  0 → 4 replicas", "llm      0 → 3 replicas", "ScaledOut", "ScaledIn", "SIGKILL"):
        assert words in shown
    retold = [line for line in lines if "resumed_at_page" in line]
    assert len(retold) == 1
    assert "reclaim" in retold[0]


@pytest.fixture
def without_rights() -> tuple[str, ...]:
    """What to run a program by so that it is not root's: another user, or one of a user namespace of its own."""
    if os.geteuid() != 0:
        return ()
    ways = (("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"), ("unshare", "--user"))
    starts = "subprocess.check_call([sys.executable, '-c', ''])"
    work = f"import os, subprocess, sys, leadsman; assert os.geteuid(); {starts}"
    look = (sys.executable, "-c", work)
    for program, *options in ways:
        found = shutil.which(program)
        if found is None:
            continue
        tried = subprocess.run([found, *options, *look], cwd="/", capture_output=True, check=False)
        if tried.returncode == 0:
            return (found, *options)
    pytest.skip("no other user can read this checkout, and there are no user namespaces")


def test_a_user_without_rights_and_docker_sees_the_story_and_why_it_is_told_in_local_mode(without_rights):
    with TemporaryDirectory(prefix="leadsman-no-rights-") as name:
        home = Path(name)
        home.chmod(0o777)
        lines = demo(home, "--quick", by=without_rights)
    assert "local mode, processes in place of pods" in lines[0]
    assert "Docker: there is no docker program" in lines[0]
    assert "a node needs" in lines[0]
    check_promises(lines, tasks=36)


@pytest.mark.long_only
def test_the_whole_story_in_local_mode_where_it_is_asked_for(tmp_path):
    lines = demo(tmp_path, LEADSMAN_DEMO="local")
    assert "LEADSMAN_DEMO asks for it" in lines[0]
    check_promises(lines, tasks=56)
