"""`leadsman explain task` as a person runs it."""

import json
import subprocess
import sys


def run(environment, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "leadsman.cli", "explain", "task", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


def test_a_waiting_task_says_what_it_waits_for_and_what_is_ahead(environment, client):
    client.submit("echo", {})
    task_id = client.submit("echo", {}, tenant="acme").id

    done = run(environment, task_id)

    assert (done.returncode, done.stderr) == (0, "")
    fields = dict(line.strip().split(None, 1) for line in done.stdout.splitlines() if line.strip())
    assert fields["state"] == "ready"
    assert fields["reason"] == "NoPoolServes"
    assert fields["ahead"] == "0 of higher priority, 0 of its tenant, 1 of other tenants"
    assert fields["share"] == "0 in flight, no cap"


def test_programs_get_the_same_as_json(environment, client):
    task_id = client.submit("echo", {}, delay_seconds=600).id

    done = run(environment, task_id, "--json")

    found = json.loads(done.stdout)
    assert (found["reason"], found["task"]["id"]) == ("Delayed", task_id)
    assert 0 < found["due_in_seconds"] <= 600
    assert found == json.loads(client.explain(task_id).model_dump_json(by_alias=True, exclude_none=True)) | {
        "due_in_seconds": found["due_in_seconds"],
        "summary": found["summary"],
    }


def test_a_task_that_nobody_knows_is_one_line_and_an_exit_code(environment):
    done = run(environment, "0000000000010000")

    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
