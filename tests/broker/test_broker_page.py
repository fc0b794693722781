"""docs/broker.md says what the broker does: every flag, call, code and metric in it exists, none is left out."""

import inspect
import re
from pathlib import Path

import pytest

from leadsman.wire.problems import ProblemCode
from leadsman_broker.cli.serve import serve

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "broker.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("parameter", inspect.signature(serve).parameters)
def test_every_flag_is_described(parameter):
    assert re.search(rf"`--{parameter.replace('_', '-')}\b", PAGE)


@pytest.mark.parametrize("flag", sorted(set(re.findall(r"`--([a-z-]+)", PAGE))))
def test_every_described_flag_exists(flag):
    assert flag.replace("-", "_") in inspect.signature(serve).parameters


UNEXPLAINED = {ProblemCode.SATURATED, ProblemCode.INTERNAL}
"""A refusal for depth has words of its own; an internal error is a bug, and nothing can be done about it."""


@pytest.mark.parametrize("code", sorted(set(ProblemCode) - UNEXPLAINED))
def test_every_code_is_described(code):
    assert f"`{code}`" in PAGE


async def test_every_call_and_metric_is_described_or_exists(lone_client, broker):
    await lone_client.submit({"capability": "work"})
    await lone_client.lease()
    async with lone_client.session.get(broker.ops_url + "/metrics") as response:
        metrics = await response.text()
    document = (await lone_client.call("GET", "/v1/openapi.json")).json

    for metric in re.findall(r"`(leadsman_\w+)", PAGE):
        assert metric in metrics
    for path, methods in document["paths"].items():
        tail = path.removeprefix("/v1/namespaces/{namespace}").rpartition("/")[2]
        for method in methods:
            assert tail in PAGE, path
            assert method.upper() in PAGE
