"""`leadsman explain pool` as a person runs it: the user's kubectl reads the pool, the broker adds its numbers."""

import json
import os
import subprocess
import sys

import pytest

POOL = {
    "metadata": {"name": "echo", "namespace": "default"},
    "spec": {"minReplicas": 0, "maxReplicas": 20, "capabilities": ["echo"]},
    "status": {
        "lastDecision": {
            "time": "2026-01-01T00:00:00Z",
            "summary": "0 -> 20: 50 waiting, 0 in flight, 50 slots wanted = 50 workers; maxReplicas is 20",
            "action": "ScaleOut",
            "reason": "AtMaxReplicas",
            "currentReplicas": 0,
            "desiredReplicas": 20,
            "clamps": [{"reason": "AtMaxReplicas", "before": 50, "after": 20, "note": "maxReplicas is 20"}],
        },
        "conditions": [{"type": "Ready", "status": "True", "reason": "AsExpected", "message": "all is well"}],
    },
}


@pytest.fixture
def run(environment, tmp_path):
    """Run the command with a kubectl that gives this answer; its arguments are kept."""

    def run(*arguments, answer="", error="", url=None):
        program = tmp_path / "kubectl"
        (tmp_path / "answer").write_text(answer)
        (tmp_path / "error").write_text(error)
        code = 1 if error else 0
        program.write_text(
            f'#!/bin/sh\necho "$@" > "{tmp_path}/asked"\ncat "{tmp_path}/error" >&2\n'
            f'cat "{tmp_path}/answer"\nexit {code}\n'
        )
        program.chmod(0o755)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [sys.executable, "-m", "leadsman.cli", "explain", "pool", *arguments],
            capture_output=True,
            text=True,
            env=environment | {"PATH": path} | ({"LEADSMAN_BROKER_URL": url} if url else {}),
            timeout=60,
            check=False,
        )

    return run


def test_the_report_has_the_decision_and_the_brokers_numbers(run, client, tmp_path):
    client.submit("echo", {})

    done = run("echo", "-n", "default", answer=json.dumps(POOL))

    assert (done.returncode, done.stderr) == (0, "")
    assert "echo: 0 -> 20: 50 waiting" in done.stdout
    assert "AtMaxReplicas (50 -> 20): raise spec.maxReplicas" in done.stdout
    assert "What the broker says now" in done.stdout
    assert (tmp_path / "asked").read_text().split() == [
        *("get", "workerpools.leadsman.dev", "echo", "--namespace", "default", "--output", "json")
    ]


def test_without_a_broker_the_status_alone_is_explained(run):
    done = run("echo", answer=json.dumps(POOL), url="http://127.0.0.1:9")

    assert done.returncode == 0
    assert "echo: 0 -> 20" in done.stdout
    assert "What the broker says now" not in done.stdout
    assert done.stderr.startswith("without the numbers of this moment: ")


def test_json_has_the_same(run):
    done = run("echo", "--json", answer=json.dumps(POOL))

    found = json.loads(done.stdout)
    assert found["last_decision"] == POOL["status"]["lastDecision"]
    assert found["would_change_it"][0].startswith("AtMaxReplicas (50 -> 20)")
    assert found["live"]["capabilities"] == []


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ("", "Error from server (NotFound): workerpools.leadsman.dev nope not found", "not found"),
        ("<html>", "", "printed no JSON"),
        ("[]", "", "printed no object"),
    ],
)
def test_what_kubectl_cannot_read_is_one_line(run, answer, error, said):
    done = run("nope", answer=answer, error=error)

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
