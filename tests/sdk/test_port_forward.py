"""`kubectl leadsman` finds the broker through kubectl; here one that answers as kubectl does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker_process import eventually

KUBECTL = """#!{python}
import json, os, pathlib, sys, time
words = sys.argv[1:]
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
plan = json.loads((here / "plan").read_text())
if "config" in words:
    print(plan["namespace"], end="")
elif "services" in words:
    if "--all-namespaces" in words and plan["forbidden"]:
        sys.exit("Error from server (Forbidden): services is forbidden")
    spec = {{"ports": [{{"name": "http", "port": 8080}}]}}
    items = [{{"metadata": {{"name": name, "namespace": "leadsman"}}, "spec": spec}} for name in plan["services"]]
    print(json.dumps({{"items": items}}))
elif "token" in words:
    print("a-token")
elif "port-forward" in words:
    if not plan["port"]:
        sys.exit("error: unable to forward port because pod is not running")
    (here / "pid").write_text(str(os.getpid()))
    print(f"Forwarding from 127.0.0.1:{{plan['port']}} -> 8080", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def kubectl_leadsman(broker, namespace, environment, tmp_path):
    """Run `kubectl-leadsman` with a kubectl that follows a plan."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable))
    program.chmod(0o755)
    environment = {name: value for name, value in environment.items() if not name.startswith("LEADSMAN_")}
    environment |= {"PATH": f"{folder}{os.pathsep}{environment['PATH']}"}

    def run(*arguments, **plan):
        usual = {"namespace": namespace, "services": ["leadsman-broker"], "forbidden": False, "port": broker.port}
        (folder / "plan").write_text(json.dumps(usual | plan))
        installed = Path(sys.executable).parent / "kubectl-leadsman"
        done = subprocess.run(
            [installed, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert "Traceback" not in done.stderr
        return done

    run.folder = folder
    return run


@pytest.mark.parametrize("forbidden", [False, True])
def test_it_goes_through_a_tunnel_that_ends_with_it(kubectl_leadsman, client, forbidden):
    task = client.submit("echo").id
    done = kubectl_leadsman("tasks", "list", "--json", forbidden=forbidden)
    assert (done.returncode, json.loads(done.stdout)["id"]) == (0, task)
    pid = int((kubectl_leadsman.folder / "pid").read_text())
    eventually(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the tunnel")
    calls = (kubectl_leadsman.folder / "calls").read_text()
    assert "--namespace leadsman port-forward service/leadsman-broker :8080" in calls
    assert "create token default --audience leadsman" in calls


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"services": []}, "shows no Leadsman broker; say where it is with --broker-url"),
        ({"services": ["a", "b"]}, "has several brokers (leadsman/a, leadsman/b)"),
        ({"port": 0}, "unable to forward port because pod is not running"),
    ],
)
def test_what_kubectl_cannot_do_is_one_line(kubectl_leadsman, plan, words):
    done = kubectl_leadsman("queues", **plan)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_an_address_that_is_given_is_taken(kubectl_leadsman, broker, namespace):
    done = kubectl_leadsman("queues", "--broker-url", broker.url, "--namespace", namespace, services=[])
    assert done.returncode == 0
    assert not (kubectl_leadsman.folder / "calls").exists()
