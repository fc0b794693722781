"""The alerts: well-formed, about metrics that exist, each one seen to fire and to keep quiet."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cluster import UnavailableError
from cluster.promtool import promtool
from leadsman_operator.metrics import Metrics

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RULES = ROOT / "charts" / "leadsman" / "rules" / "alerts.yaml"
CASES = HERE / "alerts-test.yaml"


def alerts():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture(scope="session")
def tool() -> Path:
    try:
        return promtool()
    except UnavailableError as reason:
        pytest.skip(f"no promtool here: {reason}")


def test_every_alert_fires_when_it_should_and_only_then(tool, tmp_path):
    shutil.copy(RULES, tmp_path)
    shutil.copy(CASES, tmp_path)

    done = subprocess.run(
        [tool, "test", "rules", CASES.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_alert_is_without_a_case_in_which_it_fires():
    cases = yaml.safe_load(CASES.read_text())["tests"]
    fired = {each["alertname"] for case in cases for each in case["alert_rule_test"] if each.get("exp_alerts")}

    assert fired == {rule["alert"] for rule in alerts()}


def test_every_alert_says_how_bad_it_is_and_what_to_do():
    for rule in alerts():
        assert rule["labels"]["severity"] in {"critical", "warning"}, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]


def test_alerts_are_about_metrics_that_exist():
    families = list(Metrics().registry.collect())
    ours = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    ours |= {f"{family.name}_bucket" for family in families if family.type == "histogram"}
    broker = (ROOT / "broker" / "leadsman_broker" / "metrics" / "collector.py").read_text()
    for rule in alerts():
        for name in re.findall(r"leadsman_[a-z_]+", rule["expr"]):
            assert name in ours or f'"{name}"' in broker, f"{rule['alert']}: {name}"


def test_the_operators_page_lists_every_alert():
    page = (ROOT / "docs" / "operator.md").read_text()
    assert {rule["alert"] for rule in alerts()} == set(re.findall(r"^\| (Leadsman\w+) \|", page, re.MULTILINE))


def test_the_chart_carries_the_rules_as_they_are_when_asked_to(render):
    assert "PrometheusRule" not in render().kinds()

    made = render({"monitoring": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}}})

    rule = made.one("PrometheusRule", "leadsman")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load(RULES.read_text())
