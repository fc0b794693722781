"""The served OpenAPI document describes every call, and nothing made from it, right or wrong, breaks the broker."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import time
import urllib.request
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

import leadsman_broker.http
from broker_process import BrokerProcess

TOKEN = "admin-token-0123456789"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
ENDLESS = "/v1/stats/stream"
"""Answers for as long as somebody reads; tests/broker/test_stats_stream.py does."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
LONG = bool(os.environ.get("LEADSMAN_LONG"))
EXAMPLES = 500 if LONG else 5
SECONDS = 1200 if LONG else 30
HANG_SECONDS = 120
"""Twice what a call may be parked."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    """A broker that asks for tokens and has a queue or two."""
    folder = tmp_path_factory.mktemp("openapi")
    tokens = {"tokens": [{"name": "a", "token": TOKEN, "roles": ["admin"]}]}
    (folder / "tokens.json").write_text(json.dumps(tokens))
    (folder / "capabilities.json").write_text(json.dumps({"default": [{"name": "work"}], "0": [{"name": "0"}]}))
    args = ["--tokens-file", str(folder / "tokens.json")]
    args += ["--capabilities-file", str(folder / "capabilities.json")]
    with BrokerProcess(folder, auth="static", args=args) as broker:
        yield broker


@pytest.fixture(scope="module")
def served(fuzzed):
    with urllib.request.urlopen(f"{fuzzed.url}/v1/openapi.json", timeout=HANG_SECONDS) as reply:
        return json.load(reply)


def written_calls() -> set[tuple[str, str]]:
    """Every call that a class of the package lists, whether or not the broker knows of the class."""
    found = set()
    for module in pkgutil.iter_modules(leadsman_broker.http.__path__):
        loaded = importlib.import_module(f"leadsman_broker.http.{module.name}")
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            if name.endswith("Calls") and kind.__module__ == loaded.__name__:
                routes = kind.routes(object.__new__(kind))
                found |= {(route.method, route.template) for route in routes}
    return found


def test_the_document_describes_every_call(served):
    described = {(method.upper(), path) for path, item in served["paths"].items() for method in item}
    assert described == written_calls()
    assert len(described) > 15


def test_every_call_of_the_document_has_a_name_of_its_own_and_says_what_it_takes_and_gives(served):
    names = Counter()
    for path, item in served["paths"].items():
        for operation in item.values():
            names[operation["operationId"]] += 1
            described = {part["name"] for part in operation["parameters"] if part["in"] == "path"}
            assert described == set(re.findall(r"{(\w+)}", path))
            assert operation["summary"]
            assert "schema" in next(iter(operation["responses"]["200"]["content"].values()))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_reference_of_the_document_leads_somewhere(served):
    schemas = served["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(served)))
    assert references - schemas.keys() == set()


def test_no_call_made_from_the_document_breaks_the_broker(fuzzed):
    """Schemathesis makes requests that fit the schema and such that do not; each must be answered as described."""
    schema = schemathesis.openapi.from_url(f"{fuzzed.url}/v1/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    operations = [operation for operation in operations if operation.path != ENDLESS]
    statuses = Counter()
    for operation in operations:
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            fuzz(operation, mode, SECONDS / len(operations) / 2, statuses)
    assert fuzzed.alive, fuzzed.log
    assert {200, 422} <= statuses.keys()
    assert "a request failed" not in fuzzed.log


def fuzz(operation, mode: GenerationMode, seconds: float, statuses: Counter) -> None:
    end = time.monotonic() + seconds

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=not LONG,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case):
        if time.monotonic() > end:
            return
        if isinstance(case.body, dict) and "wait_seconds" in case.body and mode is GenerationMode.POSITIVE:
            case.body["wait_seconds"] = 0
        if case.query and "wait" in case.query and mode is GenerationMode.POSITIVE:
            case.query["wait"] = "0"
        reply = case.call(headers=HEADERS, timeout=HANG_SECONDS)
        statuses[reply.status_code] += 1
        case.validate_response(reply, checks=CHECKS)

    run()
