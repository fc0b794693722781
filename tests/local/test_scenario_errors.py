"""A scenario that is wrong is told with its file, line and field."""

import pytest

from leadsman.errors import ConfigurationError
from scenarios import plan

GOOD = """\
capabilities:
  browser: {lease: {seconds: 30}}
pools:
  browser:
    maxReplicas: 3
work:
  browser: {seconds: 1}
arrivals:
  - capability: browser
    poisson: {perMinute: 6}
"""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("seconds: 30", "secnds: 30", ":2: capabilities.browser.lease.secnds: there is no such field"),
        ("maxReplicas: 3", "maxReplicas: 0", ":5: spec.maxReplicas: Input should be greater than or equal to 1"),
        ("maxReplicas: 3", "maxReplica: 3", ":5: spec.maxReplica: there is no such field"),
        ("{seconds: 1}", "{seconds: {mean: 1}}", ":7: work.browser.seconds.mean: there is no such field"),
        ("poisson:", "poison:", ":10: arrivals.0.poison: there is no such field"),
        ("perMinute: 6", "perMinute: -6", ":10: arrivals.0.poisson.perMinute: Input should be greater than 0"),
        (
            "- capability: browser",
            "- capability: brower",
            ":9: arrivals.0.capability: there is no capability brower",
        ),
        ("work:\n  browser:", "work:\n  brows:", ":7: work.brows: there is no capability brows"),
        ("pools:\n  browser:", "pools:\n  other:", ":4: pools.other.capabilities: there is no capability other"),
        ("perMinute: 6", "perMinute: [6", "this is not YAML"),
        (
            "{lease: {seconds: 30}}",
            "{budget: {tokens: 9, estimate: {money: '1'}}}",
            ":2: capabilities.browser.budget.estimate: a budget of tokens needs estimate.tokens",
        ),
        ("{seconds: 1}", "{seconds: 1, provider: model}", ":7: work.browser.provider: there is no provider model"),
        ("maxReplicas: 3", "maxReplicas: 3\n    maxReplicas: 4", ":6: pools.browser.maxReplicas: given twice"),
    ],
)
def test_a_mistake_is_told_with_line_and_field(tmp_path, before, after, told):
    assert before in GOOD
    with pytest.raises(ConfigurationError) as caught:
        plan(tmp_path, GOOD.replace(before, after))
    assert told in str(caught.value)
    assert str(tmp_path / "scenario.yaml") in str(caught.value)


def test_the_good_one_is_good(tmp_path):
    assert plan(tmp_path, GOOD).pools["browser"].spec.max_replicas == 3


def test_two_kinds_of_arrivals_in_one_are_a_mistake(tmp_path):
    with pytest.raises(ConfigurationError, match=r"arrivals\.0: give exactly one of poisson"):
        plan(tmp_path, GOOD + "    every: {seconds: 1}\n")


def test_a_manifest_may_stand_for_capabilities_and_pools(tmp_path):
    (tmp_path / "pools.yaml").write_text(
        "apiVersion: leadsman.dev/v1alpha1\nkind: Capability\nmetadata: {name: llm}\n---\n"
        "apiVersion: leadsman.dev/v1alpha1\nkind: WorkerPool\nmetadata: {name: llm}\n"
        "spec: {maxReplicas: 7, image: an/image}\n"
    )
    found = plan(tmp_path, "manifests: [pools.yaml]\npools: {llm: {minReplicas: 2}}\n")
    assert (found.pools["llm"].spec.max_replicas, found.pools["llm"].spec.min_replicas) == (7, 2)


def test_a_mistake_in_a_manifest_is_told_with_its_own_file(tmp_path):
    (tmp_path / "pools.yaml").write_text("kind: WorkerPool\nmetadata: {name: llm}\nspec:\n  maxReplicas: many\n")
    with pytest.raises(ConfigurationError, match=r"pools\.yaml:4: spec\.maxReplicas: "):
        plan(tmp_path, "manifests: [pools.yaml]\ncapabilities: {llm: {}}\n")
