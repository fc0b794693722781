"""The command line: what it refuses, it refuses in one line that says what to do."""

import os
import subprocess
import sys


def run(*arguments, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LEADSMAN_", "KUBE"))}
    return subprocess.run(
        [sys.executable, "-m", "leadsman_operator.cli", *arguments],
        env={**clean, "HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_names_every_flag_and_its_variable():
    done = run("run", "--help", COLUMNS="200")
    assert done.returncode == 0
    for flag, variable in {
        "--broker-url": "LEADSMAN_BROKER_URL",
        "--worker-broker-url": "LEADSMAN_WORKER_BROKER_URL",
        "--broker-token-file": "LEADSMAN_BROKER_TOKEN_FILE",
        "--audience": "LEADSMAN_AUDIENCE",
        "--namespace": "LEADSMAN_NAMESPACES",
        "--ops-port": "LEADSMAN_OPS_PORT",
        "--leader-election": "LEADSMAN_LEADER_ELECTION",
        "--lease-namespace": "LEADSMAN_LEASE_NAMESPACE",
        "--identity": "LEADSMAN_IDENTITY",
        "--conflict-quiet-seconds": "LEADSMAN_CONFLICT_QUIET_SECONDS",
        "--log-level": "LEADSMAN_LOG_LEVEL",
    }.items():
        assert flag in done.stdout
        assert variable in done.stdout


def test_without_a_broker_it_does_not_start():
    done = run("run")
    assert done.returncode == 2
    assert "--broker-url" in done.stderr


def test_without_an_api_server_it_says_where_it_looked():
    done = run("run", "--broker-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("leadsman-operator: no credentials for an API server")


def test_a_kubeconfig_that_is_none_is_named(tmp_path):
    path = tmp_path / "config"
    path.write_text("not: [a kubeconfig")
    done = run("run", "--broker-url", "http://127.0.0.1:1", KUBECONFIG=str(path))
    assert done.returncode == 1
    assert str(path) in done.stderr.splitlines()[-1]


def test_an_unknown_log_level_is_refused():
    done = run("run", "--broker-url", "http://127.0.0.1:1", "--log-level", "loud")
    assert done.returncode == 2
    assert "warning" in done.stderr
