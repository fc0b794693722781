"""What a run leaves behind, however it ends: nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster import Cluster, ControlPlane, cgroups, runs
from cluster.processes import Identity, end, marked, start_time
from cluster.waiting import wait_for

LINKS = Path("/sys/class/net")


def routes() -> str:
    return subprocess.run(["ip", "-4", "route"], capture_output=True, text=True, check=False).stdout


def network_namespaces() -> set[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(str((entry / "ns" / "net").readlink()))
            except OSError:
                continue
    return found


def up(name: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cluster", "up", "--name", name, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def run_named(name: str) -> runs.Run | None:
    return next((run for run in runs.all_runs() if run.manifest.name == name), None)


@pytest.fixture
def name() -> Iterator[str]:
    unique = f"harness-{os.getpid()}-{time.monotonic_ns()}"
    yield unique
    run = run_named(unique)
    if run is not None:
        run.clear()


def test_a_cluster_that_is_left_running_outlives_its_starter(control_plane: ControlPlane, name: str) -> None:
    assert up(name, "--control-plane-only").wait(180) == 0

    left = ControlPlane.attach(name)
    left.kubectl("get", "--raw", "/readyz")
    assert left.url != control_plane.url

    assert runs.clear_named(name)
    assert not marked(left.run.id)
    assert not left.run.folder.exists()


def test_the_next_run_clears_a_killed_one(control_plane: ControlPlane, name: str) -> None:
    starting = up(name, "--control-plane-only")
    run = wait_for("the run to own processes", lambda: owning(name), seconds=120, every_seconds=0.05)
    starting.kill()
    starting.wait()
    assert run.living()

    runs.clear_abandoned()

    assert not marked(run.id)
    assert not run.folder.exists()
    control_plane.kubectl("get", "namespaces")


def owning(name: str) -> runs.Run | None:
    run = run_named(name)
    return run if run is not None and run.manifest.processes else None


def test_a_half_started_cluster_goes_when_its_starter_is_asked_to_leave(
    control_plane: ControlPlane, name: str
) -> None:
    starting = up(name, "--control-plane-only")
    run = wait_for("the run to own processes", lambda: owning(name), seconds=120, every_seconds=0.05)
    starting.send_signal(signal.SIGTERM)

    assert starting.wait(60) == 128 + signal.SIGTERM
    assert not marked(run.id)
    assert not run.folder.exists()
    control_plane.kubectl("get", "namespaces")


def test_a_killed_node_leaves_nothing(cluster: Cluster, name: str) -> None:
    before = routes(), set(LINKS.iterdir())
    starting = up(name)
    run = wait_for(
        "the node to have a runtime", lambda: started(name, "containerd"), seconds=120, every_seconds=0.05
    )
    assert (LINKS / run.manifest.link).exists()
    assert cgroups.exists(run.manifest.cgroup)
    starting.kill()
    starting.wait()

    runs.clear_abandoned()

    assert_nothing_left(run)
    assert (routes(), set(LINKS.iterdir())) == before
    cluster.kubectl("get", "nodes")


def started(name: str, program: str) -> runs.Run | None:
    run = run_named(name)
    return run if run is not None and program in {one.name for one in run.manifest.processes} else None


def test_a_node_that_ran_pods_leaves_nothing(cluster: Cluster) -> None:
    before = routes(), set(LINKS.iterdir()), network_namespaces()

    with Cluster.start() as second:
        assert second.run.plan != cluster.run.plan
        pause = "localhost/pause:1"
        second.kubectl("run", "idle", f"--image={pause}", "--image-pull-policy=Never")
        second.kubectl("wait", "--for=condition=Ready", "pod/idle", "--timeout=60s")
        assert network_namespaces() - before[2]

    assert_nothing_left(second.run)
    assert (routes(), set(LINKS.iterdir())) == before[:2]
    wait_for("its network namespaces to go", lambda: not network_namespaces() - before[2], seconds=60)
    cluster.kubectl("get", "nodes")


def test_a_node_does_not_change_the_hosts_kernel_settings(cluster: Cluster) -> None:
    """A kubelet would set these for the whole machine if it saw the host's own values."""
    wanted = {"vm/overcommit_memory": "1", "kernel/panic": "10"}
    masked = [line.split()[1] for line in cluster.node.execute("cat", "/proc/mounts").splitlines()]

    for setting, value in wanted.items():
        assert f"/proc/sys/{setting}" in masked
        assert cluster.node.execute("cat", f"/proc/sys/{setting}").strip() == value


def assert_nothing_left(run: runs.Run) -> None:
    assert not marked(run.id)
    assert not (LINKS / run.manifest.link).exists()
    assert not cgroups.exists(run.manifest.cgroup)
    assert str(run.folder) not in Path("/proc/self/mounts").read_text()
    assert not run.folder.exists()


def test_a_node_dies_with_the_process_that_holds_it(cluster: Cluster, name: str) -> None:
    program = (
        "import sys\nfrom cluster import Cluster\n"
        "with Cluster.start(name=sys.argv[1]) as one:\n    print('up', flush=True)\n    sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", program, name],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        run = run_named(name)
        assert run is not None
        holder.kill()

    wait_for("its processes to die", lambda: not run.living(), seconds=60)
    runs.clear_abandoned()
    assert_nothing_left(run)
    cluster.kubectl("get", "nodes")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    "forge",
    [
        lambda one: Identity(one.name, one.pid, str(int(one.started) - 1), one.boot),
        lambda one: Identity(one.name, one.pid, one.started, "another boot"),
        lambda one: Identity(one.name, one.pid, "", one.boot),
    ],
    ids=["it started at another time", "the machine was started anew", "its start was never seen"],
)
def test_a_process_that_only_has_the_same_number_is_never_ended(
    bystander: subprocess.Popen[bytes], forge: Callable[[Identity], Identity]
) -> None:
    recorded = forge(Identity.of("etcd", bystander.pid))

    end([recorded])

    assert bystander.poll() is None
    assert start_time(bystander.pid) is not None


def test_a_recorded_process_is_ended(bystander: subprocess.Popen[bytes]) -> None:
    recorded = Identity.of("etcd", bystander.pid)

    end([recorded])

    assert not recorded.alive()
    assert bystander.wait(60) == -signal.SIGKILL
