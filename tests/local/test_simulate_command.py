"""`leadsman simulate` with several scenarios or settings: what is put side by side, and which is the cheapest."""

import json

import pytest

from leadsman.errors import ConfigurationError
from leadsman_local.simulator import command

SMALL = """\
durationSeconds: 400
capabilities: {code: {}}
pools: {code: {maxReplicas: MOST}}
work: {code: {seconds: 10}}
cluster: {startupSeconds: 0}
scaler: {by: Fixed}
sampleSeconds: 1
arrivals: [{capability: code, every: {seconds: 200, tasks: 8}, fromSeconds: 10}]
"""


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / "two.yaml", tmp_path / "four.yaml"]
    for path, most in zip(found, (2, 4), strict=True):
        path.write_text(SMALL.replace("MOST", str(most)))
    return found


def run(*paths, **changed) -> int:
    asked = {
        "compare": False, "sweep": (), "age_target": None, "percentile": "p100", "seed": None, "plot": None,
        "curves": False, "json_output": True,
    }  # fmt: skip
    return command.run(paths, **(asked | changed))


def test_scenarios_are_put_side_by_side_by_their_names(paths, capsys):
    assert run(*paths, compare=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["two", "four"]
    # Eight tasks of ten seconds: on two workers the last begins after three rounds, on four after one.
    assert [each["wait_seconds"]["p100"] for each in found.values()] == [30, 10]
    assert found["four"]["workers"]["worker_seconds"] == 2 * found["two"]["workers"]["worker_seconds"]
    assert run(*paths, compare=True, json_output=False) == 0
    shown = capsys.readouterr().out
    assert "worker-hours" in shown
    assert "four" in shown


def test_a_sweep_names_the_cheapest_setting_that_meets_the_age_target(paths, capsys):
    sweep = ["pools.code.maxReplicas=2,4,8"]
    assert run(paths[0], sweep=sweep, age_target=15) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cheapest"] == {"pools.code.maxReplicas": 4}
    assert [each["settings"]["pools.code.maxReplicas"] for each in found["results"]] == [2, 4, 8]
    assert run(paths[0], sweep=sweep, age_target=15, json_output=False) == 0
    assert "cheapest within 15 s (p100): pools.code.maxReplicas=4" in capsys.readouterr().out


def test_a_sweep_in_which_nothing_is_good_enough_says_so_and_ends_with_one(paths, capsys):
    assert run(paths[0], sweep=["pools.code.maxReplicas=1,2"], age_target=15, json_output=False) == 1
    assert "no setting keeps the oldest task's p100 within 15 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sweep": ["maxReplicas"]}, "'maxReplicas' is no sweep"),
        ({"sweep": ["pools.code.maxReplicas=0"]}, "pools.code.maxReplicas|spec.maxReplicas"),
        ({"sweep": ["seed=" + ",".join(map(str, range(1001)))]}, "1001 combinations are too many"),
        ({"percentile": "p90"}, "--percentile is one of"),
        ({"sweep": ["seed=1"], "compare": True}, "--sweep and --compare do not go together"),
    ],
)
def test_what_cannot_be_done_is_told(paths, changed, told):
    with pytest.raises(ConfigurationError, match=told):
        run(paths[0], **changed)
