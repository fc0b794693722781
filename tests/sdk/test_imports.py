"""Importing the SDK must cost next to nothing and bring nothing that a handler's image does not need."""

import json
import subprocess
import sys

import pytest

from leadsman.cli import program as p

_PROBE = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_after(statement):
    probe = _PROBE.format(statement=statement)
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    return set(json.loads(shown))


def third_party(modules):
    return {name.split(".")[0] for name in modules} - sys.stdlib_module_names - {"leadsman"}


def test_the_package_alone_loads_one_module():
    assert modules_after("import leadsman") & {"leadsman", "asyncio", "json", "ssl"} == {"leadsman"}
    assert third_party(modules_after("import leadsman")) == set()


def test_an_application_loads_no_third_party_code():
    modules = modules_after("from leadsman import App, Context, SyncContext, Retry, Dead, Release, TaskCancelled")
    ours = {name for name in modules if name.split(".")[0] == "leadsman"}
    assert ours == {
        "leadsman",
        "leadsman.amounts",
        "leadsman.app",
        "leadsman.budget",
        "leadsman.context",
        "leadsman.encoding",
        "leadsman.errors",
        "leadsman.outcomes",
    }
    assert third_party(modules) == set()


@pytest.mark.parametrize(
    "statement",
    [
        "from leadsman import Client, SyncClient",
        "import leadsman.worker.runtime",
        "import leadsman.cli.program",
        "import leadsman.testing",
    ],
)
def test_no_part_of_it_brings_a_server_or_kubernetes(statement):
    heavy = {"kubernetes", "kopf", "starlette", "uvicorn", "apsw", "prometheus_client"}
    assert third_party(modules_after(statement)) & (heavy | {"leadsman_broker", "leadsman_operator"}) == set()


def test_a_producer_does_not_load_the_command_line():
    assert third_party(modules_after("from leadsman import Client")) & {"typer", "rich", "structlog"} == set()


def test_a_worker_does_not_load_the_command_line():
    assert third_party(modules_after("import leadsman.worker.runtime")) & {"typer", "rich", "pygments"} == set()


def test_the_command_that_runs_a_worker_loads_no_other_and_nothing_that_shows_tables():
    modules = modules_after("import leadsman.cli.program as p, leadsman.worker.runtime; p.assemble('worker')")
    commands = {module for module in p.COMMANDS.values() if module != "leadsman.cli.worker"}
    assert modules & commands == set()
    assert third_party(modules) & {"rich", "pygments"} == set()


def test_rich_is_there_for_who_wants_it_after_the_logs_did_without():
    assert "rich.console" in modules_after("import leadsman.logs, rich.console")


def test_every_public_name_is_there():
    import leadsman

    assert {name: getattr(leadsman, name) for name in leadsman.__all__}.keys() == set(dir(leadsman))


def test_a_name_that_does_not_exist_is_an_attribute_error():
    import leadsman

    with pytest.raises(AttributeError, match="no attribute 'Task'"):
        _ = leadsman.Task
