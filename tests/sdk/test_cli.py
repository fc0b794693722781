"""The command line as scripts use it: through pipes, with exit codes, one line for every error."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from broker_process import eventually
from leadsman import TaskState
from leadsman.cli import program

OK, ERROR, USAGE, REFUSED, UNREACHABLE, FAILED, TIMED_OUT = range(7)


@pytest.fixture
def run(environment):
    def run(*arguments, stdin="", url=None, **options):
        command = [sys.executable, "-m", "leadsman.cli", *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            env=environment | ({"LEADSMAN_BROKER_URL": url} if url else {}),
            timeout=60,
            check=False,
            **options,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_submit_prints_the_id_and_nothing_else(run, client):
    done = run("submit", "echo", "--payload", '{"url": "x"}', "--priority", "3", "--tenant", "acme", "--key", "k")
    assert (done.returncode, done.stderr) == (OK, "")
    view = client.get(done.stdout.strip())
    assert (view.priority, view.tenant, view.idempotency_key) == (3, "acme", "k")


def test_submit_takes_its_payload_from_a_pipe(run, broker, start_worker):
    start_worker(broker.url, capabilities=["echo"])
    done = run("submit", "echo", "--payload", "-", "--wait", stdin='{"from": "a pipe"}')
    assert (done.returncode, json.loads(done.stdout)) == (OK, {"from": "a pipe"})


def test_submit_in_json_prints_the_answer(run):
    done = run("submit", "echo", "--json")
    (answer,) = lines(done.stdout)
    assert answer["accepted"]
    assert answer["state"] == "ready"
    assert answer["index"] == 0


def test_submit_many_prints_a_summary(run, client):
    done = run("submit", "echo", "--count", "1200", "--key", "batch")
    assert (done.returncode, done.stdout) == (OK, "accepted 1200 of 1200\n")
    again = run("submit", "echo", "--count", "1200", "--key", "batch")
    assert again.stdout == "accepted 1200 of 1200 (1200 known already)\n"
    assert client.submit("echo", key="batch-1199").duplicate


def test_submit_a_file(run, tmp_path, client):
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"payload": 1}\n\n{"payload": 2, "capability": "gate", "priority": 9}\n')
    done = run("submit", "echo", "--file", str(file), "--json", "--class", "interactive")
    assert done.returncode == OK
    first, second = (client.get(answer["id"]) for answer in lines(done.stdout))
    assert (first.capability, first.priority, first.task_class) == ("echo", 5, "interactive")
    assert (second.capability, second.priority) == ("gate", 9)


def test_submit_a_file_from_a_pipe(run):
    done = run("submit", "echo", "--file", "-", stdin='{"payload": 1}\n' * 3)
    assert (done.returncode, done.stdout) == (OK, "accepted 3 of 3\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"payload": 1}\n{"paylod": 2}\n', "line 2: paylod: Extra inputs are not permitted"),
        ('{"payload": 1}\n{"payload": \n', "line 2 is not JSON"),
        ('{"payload": 1}\n[1]\n', 'line 2 is no object; write {"payload": ...}'),
        ('{"payload": NaN}\n', "line 1 is not JSON: NaN is not JSON"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_sent(run, tmp_path, client, content, words):
    file = tmp_path / "tasks.jsonl"
    file.write_text(content)
    done = run("submit", "echo", "--file", str(file))
    assert done.returncode == USAGE
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert {queue.name: queue.ready for queue in client.stats().capabilities}.get("echo", 0) == 0


def test_a_full_queue_is_exit_code_3_and_says_when_to_come_back(run):
    done = run("submit", "small", "--count", "5")
    assert done.returncode == REFUSED
    assert done.stdout == "accepted 3 of 5\n"
    assert done.stderr == "refused: pool saturated; try again in 1 s, or with --wait-for-room\n"
    (answer,) = lines(run("submit", "small", "--json").stdout)
    assert answer == {"index": 0, "accepted": False, "reason": "pool saturated", "retry_after_s": 1}


def test_an_unknown_queue_is_refused_by_name(run):
    done = run("submit", "brwser")
    assert done.returncode == USAGE
    assert "brwser" in done.stderr
    assert "(unknown_capability)" in done.stderr


def test_waiting_for_tasks_that_fail(run, broker, start_worker):
    start_worker(broker.url, capabilities=["fail"])
    done = run("submit", "fail", "--payload", '{"raise": "Dead"}', "--wait")
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert "is dead:" in done.stderr
    assert "Dead: hopeless" in done.stderr


def test_waiting_is_bounded(run):
    done = run("submit", "echo", "--wait", "--timeout", "0.2")
    assert done.returncode == TIMED_OUT
    assert "is still ready" in done.stderr


def test_a_task_is_shown_with_its_history(run, client, broker, start_worker):
    start_worker(broker.url, capabilities=["fail"])
    task = client.submit("fail", {"raise": "ValueError"}).id
    client.wait(task, timeout_seconds=60)
    done = run("tasks", "get", task)
    assert done.returncode == OK
    assert "3 of 3 spent" in done.stdout
    assert done.stdout.count("ValueError: xxx") == 4  # the error, and three times in the history
    (view,) = lines(run("tasks", "get", task, "--json").stdout)
    assert (view["state"], view["attempts"]["failures"]) == ("dead", 3)
    missing = run("tasks", "get", "no-such-task", "--json")
    assert missing.returncode == ERROR
    assert json.loads(missing.stderr)["error"]["code"] == "unknown_task"


def test_the_dead_letter_queue_is_listed_and_redriven(run, client, broker, start_worker):
    worker = start_worker(broker.url, capabilities=["fail"], slots=4)
    tasks = [client.submit("fail", {"raise": "ValueError"}, max_attempts=1).id for _ in range(4)]
    for task in tasks:
        client.wait(task, timeout_seconds=60)
    worker.kill()
    assert [view["id"] for view in lines(run("dlq", "list", "fail", "--json").stdout)] == tasks
    shown = run("dlq", "list", "fail", "--limit", "2").stdout.splitlines()
    assert len(shown) == 3
    assert shown[1].startswith(tasks[0])
    assert run("dlq", "redrive", "fail", tasks[1]).stdout == "redriven 1 of 1\n"
    rest = run("dlq", "redrive", "fail", "--all")
    assert (rest.returncode, rest.stdout) == (OK, "redriven 3\n")
    assert {client.get(task).state for task in tasks} == {TaskState.READY}
    empty = run("dlq", "list", "fail")
    assert (empty.returncode, empty.stdout, empty.stderr) == (OK, "", "no dead tasks in fail\n")
    again = run("dlq", "redrive", "fail", tasks[0])
    assert again.returncode == ERROR
    assert f"not redriven: {tasks[0]}" in again.stderr


def test_queues_shows_work_and_workers(run, client, broker, start_worker, journal, gate):
    start_worker(broker.url, capabilities=["gate", "echo"], slots=3)
    client.submit("gate", gate.path)
    eventually(lambda: journal.entries("started"), what="a handler at work")
    header, *rows = run("queues").stdout.splitlines()
    row = next(row for row in rows if row.startswith("gate"))
    shown = dict(zip(header.split(), row.split(), strict=False))
    assert shown | {"READY": "0", "LEASED": "1", "WORKERS": "1", "SLOTS": "1/3"} == shown
    (snapshot,) = lines(run("queues", "--json").stdout)
    assert {queue["name"]: queue["leased"] for queue in snapshot["capabilities"]}["gate"] == 1


def test_watching_queues_through_a_pipe_prints_a_sample_a_line_until_ctrl_c(environment):
    command = [sys.executable, "-m", "leadsman.cli", "queues", "--watch", "--interval", "0.1", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as it:
        samples = [json.loads(it.stdout.readline()) for _ in range(3)]
        it.send_signal(signal.SIGINT)
        it.stdout.read()
        assert it.wait(60) == 130
        assert it.stderr.read() == ""
    assert all("capabilities" in sample for sample in samples)


def test_a_reader_that_has_enough_is_no_error(environment):
    watch = f"{sys.executable} -m leadsman.cli queues --watch --interval 0.1 --json"
    done = subprocess.run(
        ["bash", "-c", f"{watch} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=True,
    )
    sample, status = done.stdout.splitlines()
    assert "capabilities" in json.loads(sample)
    assert (status, done.stderr) == ("141", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing command; see `leadsman --help`"),
        (["quues"], "Did you mean 'queues'?; see `leadsman --help`"),
        (["submit"], "Missing argument 'CAPABILITY'; see `leadsman submit --help`"),
        (["submit", "echo", "--count", "0"], "--count"),
        (["submit", "echo", "--payload", "{"], "--payload is not JSON"),
        (["submit", "Echo"], "capability: must be lower-case letters"),
        (["submit", "echo", "--priority", "10"], "priority: Input should be less than or equal to 9"),
        (["submit", "echo", "--payload", "1", "--file", "x"], "give --payload or --file, not both"),
        (["submit", "echo", "--file", "/nope"], "/nope cannot be read: No such file or directory"),
        (["submit", "echo", "--payload", "[" * 5_000], "--payload is nested too deep"),
        (["pause", "echo", "--reason", "x" * 300], "the pause: reason: String should have at most 200 characters"),
        (["dlq", "list", "echo", "--tenant", "x" * 300], "which tasks: tenant: String should have at most 128"),
        (["dlq", "purge", "echo", "--handler", "a b", "--yes"], "which tasks: name: must be letters, digits"),
        (["dlq", "redrive", "echo", ""], "the tasks: ids.0: String should have at least 1 character"),
        (["dlq", "purge", "echo", "", "--yes"], "the tasks: ids.0: String should have at least 1 character"),
        (["dlq", "redrive", "echo"], "name the tasks by id, or choose them by --error and the like, or say --all"),
        (["queues", "--broker-url", "nope"], "is no broker address"),
        (["queues", "--token-file", "/nope"], "check LEADSMAN_TOKEN_FILE or --token-file"),
        (["worker", "nope:app"], "there is no module 'nope'"),
        (["worker", "json:loads"], "json:loads is function, not a leadsman.App"),
        (["worker", "json:nope"], "needs `nope = App()`"),
        (["worker", "handlers.py"], "say handlers:app"),
        (["worker", "leadsman:App", "--log-level", "loud"], "no log level"),
    ],
)
def test_every_mistake_is_one_line_and_exit_code_2(run, environment, monkeypatch, capsys, arguments, words):
    """In this process, for speed, unless the command changes the process it runs in, as a worker does."""
    if arguments[:1] == ["worker"]:
        done = run(*arguments)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        monkeypatch.setattr("sys.argv", ["leadsman", *arguments])
        for name in ("LEADSMAN_BROKER_URL", "LEADSMAN_NAMESPACE"):
            monkeypatch.setenv(name, environment[name])
        code = program.run(arguments)
        out, err = capsys.readouterr()
    assert code == USAGE
    assert out == ""
    assert words in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_in_json_an_error_is_a_json_line(run):
    done = run("submit", "echo", "--payload", "{", "--json")
    assert json.loads(done.stderr)["error"]["code"] == "invalid_value"


def test_a_broker_that_is_not_there_is_exit_code_4(run):
    done = run("queues", url="http://127.0.0.1:9")
    assert done.returncode == UNREACHABLE
    assert done.stderr.startswith("error: cannot reach the broker at http://127.0.0.1:9: connection refused")


def test_flags_come_before_the_environment(run, broker, namespace):
    done = run("submit", "echo", "--broker-url", broker.url, "-n", namespace, url="http://127.0.0.1:9")
    assert done.returncode == OK
    assert run("submit", "echo", "-n", "elsewhere").returncode == USAGE  # no such queue there


def test_version_and_help_work_without_a_broker(run):
    assert run("--version").stdout == "0.1.0\n"
    done = run("submit", "--help")
    assert done.returncode == OK
    assert "--wait-for-room" in done.stdout


def test_a_worker_without_a_handler_for_what_it_is_to_serve_does_not_start(run, tmp_path):
    (tmp_path / "handlers.py").write_text(
        "from leadsman import App\napp = App()\n@app.task('llm')\nasync def llm(ctx): ...\n"
    )
    done = run("worker", "handlers:app", "--capability", "llm", "--capability", "browser", cwd=tmp_path)
    assert done.returncode == USAGE
    assert (
        "no handler for browser, which this worker is to serve; the application has handlers for llm" in done.stderr
    )


def test_an_application_that_fails_to_import_shows_where(environment, tmp_path):
    (tmp_path / "handlers.py").write_text("import json\njson.loads('{')\n")
    done = subprocess.run(
        [sys.executable, "-m", "leadsman.cli", "worker", "handlers:app"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == USAGE
    assert 'handlers.py", line 2' in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: handlers:app cannot be imported: JSONDecodeError")


def test_kubectl_leadsman_is_the_same_program():
    program = os.path.join(os.path.dirname(sys.executable), "kubectl-leadsman")  # noqa: PTH118, PTH120  as installed
    done = subprocess.run([program, "quues"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == USAGE
    assert "see `kubectl leadsman --help`" in done.stderr


def test_what_was_spent_is_shown_by_tenant_and_by_queue(broker, client, start_worker, run, gate):
    gate.open()
    start_worker(broker.url, capabilities=["echo"])
    payload = {"calls": [[100, "1.5"]], "gate": gate.path}
    task = client.submit("echo", payload, name="spend", tenant="acme").id
    client.result(task, timeout_seconds=60)

    done = run("cost", "--by", "tenant", "--json")
    report = json.loads(done.stdout)
    assert [(line["item"], line["tokens"], line["cost_micros"]) for line in report["items"]] == [
        ("acme", 100, 1_500_000)
    ]
    shown = run("cost", "--since", "7d")
    assert shown.stdout.split()[:2] == ["CAPABILITY", "ATTEMPTS"]
    assert "1.5000" in shown.stdout
    assert run("cost", "--tenant", "nobody").stderr == "no attempt reported usage in this time\n"
    wrong = run("cost", "--since", "yesterday")
    assert wrong.returncode == 2
    assert "write 90s, 30m, 24h or 7d" in wrong.stderr


def test_pause_and_resume_say_what_they_did(run, client, start_worker, broker):
    paused = run("pause", "echo", "--reason", "provider down")
    assert (paused.returncode, paused.stdout) == (OK, "echo paused (provider down)\n")
    assert run("pause", "echo").stdout == "echo was paused already (provider down)\n"
    start_worker(broker.url, capabilities=["echo"])
    task = client.submit("echo", 1).id
    assert "echo (paused)" in run("queues").stdout
    (resumed,) = lines(run("resume", "echo", "--json").stdout)
    assert resumed == {"name": "echo", "paused": False, "changed": True, "reason": ""}
    assert client.result(task, timeout_seconds=60) == 1
    unknown = run("pause", "typo")
    assert (unknown.returncode, "typo" in unknown.stderr) == (ERROR, True)


def test_tasks_are_listed_and_cancelled(run, client):
    first, second = client.submit("echo", tenant="acme").id, client.submit("gate").id
    done = run("tasks", "cancel", first, "0000000000000000ffff")
    assert (done.returncode, done.stdout) == (ERROR, f"{first} is cancelled\n")
    assert done.stderr.startswith("error: ")
    listed = run("tasks", "list")
    assert listed.stdout.splitlines()[0].split() == [
        *("ID", "CAPABILITY", "HANDLER", "STATE", "TENANT", "AGE", "ATTEMPTS", "WHY")
    ]
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [first, second]
    (only,) = lines(run("tasks", "list", "--json", "--state", "cancelled", "--tenant", "acme").stdout)
    assert (only["id"], only["state"]) == (first, "cancelled")
    nothing = run("tasks", "list", "--capability", "small")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (OK, "", "no such tasks\n")
    assert run("tasks", "list", "--state", "lost").returncode == USAGE
    (again,) = lines(run("tasks", "cancel", first, "--json").stdout)
    assert again["state"] == "cancelled"


def test_top_into_a_pipe_gives_samples_with_rates(run, client, broker, start_worker, gate):
    start_worker(broker.url, capabilities=["gate"], slots=3)
    client.submit("gate", gate.path)
    eventually(lambda: client.stats().workers[0].leases == 1, what="a task at work")
    done = run("top", "--once", "--json", "--interval", "0.2")
    (sample,) = lines(done.stdout)
    (queue,) = [one for one in sample["capabilities"] if one["name"] == "gate"]
    assert (queue["leased"], queue["per_second"]["completed"]) == (1, 0.0)
    shown = run("top", "--once", "--interval", "0.2").stdout
    assert "0 waiting, 1 of 3 slots taken, 1 workers" in shown
    assert "gate 1" in shown


def test_top_without_a_broker_is_one_line(run):
    done = run("top", url="http://127.0.0.1:9")
    assert (done.returncode, len(done.stderr.splitlines())) == (UNREACHABLE, 1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_every_shell(environment, shell):
    done = subprocess.run(
        [shutil.which("leadsman", path=str(Path(sys.executable).parent))],
        env=environment | {"_LEADSMAN_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_LEADSMAN_COMPLETE" in done.stdout


def test_runs_are_listed_shown_and_cancelled(run, client):
    client.run("crawl-1", max_cost="2.5").submit("echo")
    listed = run("runs", "list")
    assert listed.stdout.split("\n")[1].split()[:3] == ["crawl-1", "running", "1"]
    shown = run("runs", "show", "crawl-1")
    assert "0.0000 (at most 2.5000)" in shown.stdout
    (view,) = lines(run("runs", "cancel", "crawl-1", "--json").stdout)
    assert (view["state"], view["tasks"]["cancelled"]) == ("cancelled", 1)
    task = run("submit", "echo", "--run", "crawl-2").stdout.strip()
    (listed_task,) = lines(run("tasks", "list", "--run", "crawl-2", "--json").stdout)
    assert (listed_task["id"], listed_task["run_id"]) == (task, "crawl-2")
    unknown = run("runs", "show", "nobody")
    assert unknown.returncode == ERROR
    assert "no run nobody is known" in unknown.stderr


def test_the_dead_are_grouped_filtered_shown_and_purged(run, client, broker, start_worker):
    worker = start_worker(broker.url, capabilities=["fail"], slots=4)
    for kind, tenant in (("ValueError", "a"), ("ValueError", "b"), ("Dead", "b")):
        client.wait(client.submit("fail", {"raise": kind}, tenant=tenant, max_attempts=1).id, timeout_seconds=60)
    worker.kill()
    groups = lines(run("dlq", "list", "fail", "--group", "--json").stdout)
    assert [(group["reason"], group["tasks"]) for group in groups] == [("MaxAttempts", 2), ("NoRetry", 1)]
    assert run("dlq", "list", "fail", "--group").stdout.splitlines()[1].split()[:3] == [
        "2",
        "MaxAttempts",
        "ValueError",
    ]
    (one,) = lines(
        run("dlq", "list", "fail", "--error", "ValueError", "--tenant", "b", "--since", "1h", "--json").stdout
    )
    shown = run("dlq", "show", one["id"])
    assert (shown.returncode, '"raise": "ValueError"' in shown.stdout) == (OK, True)
    assert run("dlq", "redrive", "fail", "--reason", "NoRetry", "--dry-run").stdout == "1 would be redriven\n"
    assert run("dlq", "redrive", "fail", "--reason", "NoRetry").stdout == "redriven 1\n"
    refused = run("dlq", "purge", "fail", "--all")
    assert (refused.returncode, "say --yes" in refused.stderr) == (USAGE, True)
    assert run("dlq", "purge", "fail", one["id"], "--dry-run").stdout == "1 would be purged\n"
    assert run("dlq", "purge", "fail", one["id"], "--yes").stdout == "purged 1 of 1\n"
    assert lines(run("dlq", "purge", "fail", "--tenant", "a", "--yes", "--json").stdout) == [{"purged": 1}]
    assert run("dlq", "list", "fail").stderr == "no dead tasks in fail\n"


def test_a_redrive_that_finds_no_room_says_how_to_go_on(run, client, broker, namespace):
    def post(path, body):
        url = f"{broker.url}/v1/namespaces/{namespace}/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    for number in range(4):
        client.submit("small")
        worker = {"pod_uid": "p", "incarnation": "1"}
        slots = {"capabilities": ["small"], "slots": 1, "free_slots": 1}
        (lease,) = post("leases", {"worker": worker, **slots, "attempt_id": str(number)})["leases"]
        post("leases/nack", {"nacks": [{"token": lease["token"], "error": {"type": "E"}, "retry": False}]})
    done = run("dlq", "redrive", "small", "--all", "--json")
    assert done.returncode == REFUSED
    (answer,) = lines(done.stdout)
    assert (answer["redriven"], len(client.dead("small"))) == (2, 2)
    assert answer["retry_after_s"] >= 1
    again = run("dlq", "redrive", "small", "--all")
    assert (again.returncode, again.stdout) == (REFUSED, "redriven 0\n")
    assert "the same command goes on" in again.stderr


def test_the_budget_of_a_queue_that_has_none_is_not_found(run):
    done = run("budget", "echo")
    assert (done.returncode, done.stdout) == (ERROR, "")
    assert "no capability echo with a budget" in done.stderr
