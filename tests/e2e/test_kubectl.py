"""What a person sees with plain kubectl, on what the demo left up."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from demo.installation import AGENTS
from demo.programs import DemoError
from world import until


def test_get_shows_pools_and_queues_by_their_short_names(world):
    shown = world.kubectl("--namespace", AGENTS, "get", "wp,cap")
    for words in ("workerpool.leadsman.dev/browser", "workerpool.leadsman.dev/llm", "capability.leadsman.dev/llm"):
        assert words in shown


def test_the_plugin_finds_the_broker_through_a_tunnel_that_ends_with_it(world, tmp_path):
    plugin = Path(sys.executable).parent / "kubectl-leadsman"
    for name, program in (("kubectl", world.ground.kubectl), ("kubectl-leadsman", plugin)):
        (tmp_path / name).symlink_to(program)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LEADSMAN_")}
    done = subprocess.run(
        ["kubectl", "leadsman", "queues", "--namespace", AGENTS, "--json"],
        env=inherited | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(world.ground.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    queues = {queue["name"] for queue in json.loads(done.stdout)["capabilities"]}
    assert {"browser", "llm"} <= queues
    until("the tunnel has ended", lambda: not tunnels(tmp_path / "kubectl"))


def tunnels(kubectl):
    """Processes of this kubectl that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if str(kubectl).encode() in path.read_bytes():
                found.append(path)
    return found


def test_wait_for_ready_is_answered_at_zero_workers(world):
    met = world.kubectl(
        *("--namespace", AGENTS, "wait", "--for=condition=Ready", "workerpool/browser", "workerpool/llm"),
        "--timeout=30s",
    )
    assert met.count("condition met") == 2


def test_describe_ends_with_the_decision_and_its_numbers(world):
    shown = world.kubectl("--namespace", AGENTS, "describe", "workerpool", "browser")
    for words in ("Last Decision", "Summary", "Formula", "Conditions", "Desired Replicas"):
        assert words in shown


def test_explain_documents_the_scaling_fields(world):
    shown = world.kubectl("explain", "workerpool.spec.scaling")
    for words in ("targetTasksPerSlot", "targetAgeSeconds", "scaleIn", "Depth target"):
        assert words in shown


def test_events_explain_each_move_with_numbers(world):
    shown = world.events(AGENTS, "browser")
    moves = [line for line in shown.splitlines() if "ScaledOut" in line or "ScaledIn" in line]
    assert any("ScaledOut" in line for line in moves)
    assert any("ScaledIn" in line for line in moves)
    assert all(any(character.isdigit() for character in line.split("WorkerPool/browser")[1]) for line in moves)


def test_scale_sets_the_least_number_of_workers(world):
    def scale(number):
        world.kubectl("--namespace", AGENTS, "scale", "workerpool", "llm", f"--replicas={number}")
        assert world.get("workerpool", "llm", "--namespace", AGENTS)["spec"]["minReplicas"] == number

    scale(1)
    until("one worker is asked for", lambda: world.replicas(AGENTS, "llm") == 1)
    scale(0)
    until("it has left again", lambda: world.replicas(AGENTS, "llm") == 0)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minReplicas": 3, "maxReplicas": 2}, "minReplicas may not be above maxReplicas"),
        ({"maxReplicas": 2, "template": {"spec": {"containers": [{"name": "a"}]}}}, "exactly one of image"),
        ({"maxReplicas": 2, "scaling": {"targetTasksPerSlot": 0}}, "targetTasksPerSlot"),
        ({"maxReplicas": "many"}, "maxReplicas"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused_at_apply(world, spec, words):
    bad = {
        "apiVersion": "leadsman.dev/v1alpha1",
        "kind": "WorkerPool",
        "metadata": {"name": "bad"},
        "spec": {"image": "registry.example/agents:1", **spec},
    }
    with pytest.raises(DemoError) as refused:
        world.apply(AGENTS, bad)
    assert words in str(refused.value)
