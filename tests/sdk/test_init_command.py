"""`leadsman init`: what it makes is tested, served, submitted to and applied as it is."""

import json
import os
import subprocess
import sys

import pytest

from leadsman_local.dev.manifests import load

FILES = {
    "Dockerfile",
    "README.md",
    "handlers.py",
    "pools.yaml",
    "produce.py",
    "requirements.txt",
    "test_handlers.py",
}


@pytest.fixture
def init(tmp_path):
    def init(*arguments):
        command = [sys.executable, "-m", "leadsman.cli", "init", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return init


@pytest.fixture
def project(init, tmp_path):
    done = init("word-lengths", "--name", "echo")  # a queue that the tests' broker has
    assert done.returncode == 0, done.stderr
    return tmp_path / "word-lengths"


def test_its_own_tests_pass(project):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout


def test_its_worker_does_what_its_producer_asks_for(project, broker, start_worker, environment):
    start_worker(
        broker.url, capabilities=["echo"], target="handlers:app", env={"PYTHONPATH": str(project), "HOME": "/"}
    )
    command = [sys.executable, "produce.py", "apples", "figs"]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "{'apples': 6, 'figs': 4}\n"


def test_its_yaml_is_a_queue_and_a_fleet_that_serves_it(project):
    found = load([project / "pools.yaml"], "handlers:app", 4)
    assert (list(found.pools), list(found.capabilities)) == (["echo"], ["echo"])


def test_its_image_holds_what_the_dockerfile_copies(project):
    copied = [line.split()[1] for line in (project / "Dockerfile").read_text().splitlines() if line[:4] == "COPY"]
    assert copied == ["requirements.txt", "handlers.py"]
    assert all((project / name).exists() for name in copied)


def test_the_queue_has_the_folder_s_name_and_programs_are_told_the_files(init, tmp_path):
    done = init("My Agent_2", "--json")
    told = json.loads(done.stdout)
    assert told["name"] == "my-agent-2"
    assert {os.path.basename(path) for path in told["files"]} == FILES  # noqa: PTH119  as printed
    assert '@app.task("my-agent-2")' in (tmp_path / "My Agent_2" / "handlers.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((".",), "handlers.py is there already; choose another folder"),
        (("x", "--name", "Summarise"), "'Summarise' is no capability name"),
        (("handlers.py/x",), "cannot be written: "),
    ],
)
def test_what_cannot_be_made_is_one_line_and_nothing_is_written(init, tmp_path, arguments, words):
    (tmp_path / "handlers.py").write_text("mine")
    done = init(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["handlers.py"]
    assert (tmp_path / "handlers.py").read_text() == "mine"
