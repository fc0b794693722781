"""docs/operator.md says what there is: every event, condition reason, metric, flag and right."""

import re
from pathlib import Path

import pytest
import typer

from leadsman_operator.cli import application
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.metrics import Metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operator.md").read_text()


@pytest.mark.parametrize("reason", list(EventReason))
def test_every_event_is_described(reason):
    assert f"`{reason.value}`" in PAGE


def test_every_metric_is_described_and_no_other():
    described = set(re.findall(r"`([a-z_]+)`", PAGE.split("## Probes and metrics")[1]))
    families = {family.name: family.type for family in Metrics().registry.collect()}
    ours = {
        name.removeprefix("leadsman_operator_") + ("_total" if kind == "counter" else "")
        for name, kind in families.items()
        if name.startswith("leadsman_operator_")
    }
    assert described == ours


def test_every_flag_is_described():
    command = typer.main.get_command(application)
    context = typer.Context(command)
    run = command.get_command(context, "run")  # type: ignore[attr-defined]
    flags = {flag for parameter in run.params for flag in parameter.opts if flag != "--help"}
    assert {flag for flag in flags if f"`{flag}`" not in PAGE} == set()
