"""The harness's decisions that need no cluster."""

import json
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from cluster import ClusterError, UnavailableError, engine
from cluster.__main__ import main
from cluster.locking import FileLock
from cluster.network import AddressPlan, free_block
from cluster.places import REPOSITORY
from cluster.waiting import wait_for
from cluster.wheels import locked_closure

PROJECT = """
[project]
name = "leadsman"
dependencies = ["Web-Client>=1"]
[project.optional-dependencies]
broker = ["store>=2"]
dev = ["checker"]
"""
LOCK = """checker==1.0 \\
    --hash=sha256:aa
    # via leadsman (pyproject.toml)
deep-part==3.1 ; sys_platform == 'linux' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via
    #   checker
    #   web-client
only-checked==1.1 \\
    --hash=sha256:dd
    # via checker
store==2.5 \\
    --hash=sha256:ee
    # via leadsman (pyproject.toml)
web-client==1.2 \\
    --hash=sha256:ff
    # via leadsman (pyproject.toml)
"""


def names(requirements: str) -> list[str]:
    return [line.split("==")[0] for line in requirements.splitlines() if "==" in line and not line.startswith(" ")]


def test_the_image_gets_what_runs_and_not_what_checks() -> None:
    closure = locked_closure(LOCK, PROJECT, ["broker"])

    assert names(closure) == ["deep-part", "store", "web-client"]
    assert "sys_platform == 'linux'" in closure
    assert "--hash=sha256:cc" in closure
    assert "# via" not in closure


def test_an_extra_that_was_not_asked_for_stays_out() -> None:
    assert names(locked_closure(LOCK, PROJECT, [])) == ["deep-part", "web-client"]


def test_a_lock_file_that_misses_a_dependency_is_refused() -> None:
    with pytest.raises(ClusterError, match="does not pin store"):
        locked_closure(LOCK.replace("store==", "stone=="), PROJECT, ["broker"])


def test_the_projects_own_lock_file_is_complete() -> None:
    closure = locked_closure(
        (REPOSITORY / "requirements.lock").read_text(),
        (REPOSITORY / "pyproject.toml").read_text(),
        ["broker", "operator"],
    )

    assert {"aiohttp", "kopf", "kubernetes", "uvicorn"} <= set(names(closure))
    assert not {"pytest", "mypy", "hypothesis"} & set(names(closure))


def test_a_block_that_another_run_has_is_not_given_out_again() -> None:
    taken = {f"10.{second}.0.0/16" for second in range(60, 251)} - {"10.77.0.0/16"}

    assert free_block(taken) == IPv4Network("10.77.0.0/16")


def test_when_every_usual_block_is_taken_a_spare_one_is_found() -> None:
    assert not free_block({"10.0.0.0/8"}).overlaps(IPv4Network("10.0.0.0/8"))


def test_no_address_of_a_plan_is_in_two_ranges() -> None:
    plan = AddressPlan.of("10.77.0.0/16")

    assert not plan.pods.overlaps(plan.services)
    assert all(end not in network for end in (plan.host, plan.node) for network in (plan.pods, plan.services))
    assert plan.kubernetes_service in plan.services


def test_a_named_kubeconfig_wins_and_is_left_alone(tmp_path: Path) -> None:
    named = tmp_path / "mine"
    named.write_text("untouched")

    choice = engine.choose(environment={"KUBECONFIG": str(named)})

    assert choice.engine.kind == "kubeconfig"
    assert choice.engine.up() == named
    choice.engine.down()
    assert named.read_text() == "untouched"


def test_an_image_for_a_named_cluster_is_its_owners_to_push(tmp_path: Path) -> None:
    choice = engine.choose(environment={"KUBECONFIG": str(tmp_path / "mine")})

    with pytest.raises(UnavailableError, match="registry"):
        choice.engine.provide_image("leadsman:dev")


def test_a_named_kubeconfig_that_is_no_file_is_an_error(tmp_path: Path) -> None:
    choice = engine.choose(environment={"KUBECONFIG": str(tmp_path / "nothing")})

    with pytest.raises(ClusterError, match="is not a file"):
        choice.engine.up()


def test_docker_without_kind_falls_through_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 99.0\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("cluster.cluster.obstacle", lambda: None)

    choice = engine.choose(environment={})

    assert choice.engine.kind == "built"
    assert choice.passed_over == ["kind: a Docker engine answers, but there is no kind program"]


def test_docker_with_kind_is_preferred_to_the_built_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("docker", "kind"):
        (tmp_path / name).write_text("#!/bin/sh\necho 99.0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert engine.choose(environment={}).engine.kind == "kind"


def test_where_nothing_is_possible_everything_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("cluster.cluster.obstacle", lambda: "a node needs root")

    with pytest.raises(UnavailableError, match=r"(?s)no docker program.*needs root"):
        engine.choose(environment={})


def test_the_doctor_is_readable_by_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])

    tiers = json.loads(capsys.readouterr().out)
    assert [tier["name"] for tier in tiers] == ["control-plane", "node", "image", "helm"]
    assert code == (0 if all(tier["able"] for tier in tiers) else 1)


def test_the_environment_of_a_cluster_that_is_not_up_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--name", "nobody"]) == 1
    assert "python -m cluster up --name nobody" in capsys.readouterr().err


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire(wait=False)
    assert not second.acquire(wait=False)

    first.release()

    assert second.acquire(wait=False)
    second.release()


def test_waiting_in_vain_shows_the_evidence() -> None:
    with pytest.raises(ClusterError, match=r"(?s)waiting for Godot.*he is late"):
        wait_for("Godot", lambda: None, seconds=0.05, every_seconds=0.01, evidence=lambda: "he is late")
