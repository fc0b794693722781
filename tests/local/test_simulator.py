"""What happens in a simulation: nothing is lost, nobody busy is taken away, and chance repeats itself."""

from pathlib import Path

import pytest

from leadsman_local.simulator.report import curves, moves, summary, text
from leadsman_local.simulator.scenario import load
from leadsman_local.simulator.world import simulate
from scenarios import figures, plan, play

LOAD_24H = Path(__file__).resolve().parents[2] / "bench" / "scenarios" / "load_24h.yaml"

BUSY = """\
durationSeconds: 1000
capabilities: {browser: {lease: {seconds: 10}}}
pools: {browser: {maxReplicas: 12, slotsPerWorker: 2, scaling: {targetTasksPerSlot: 1, scaleIn: {idleSeconds: 60}}}}
work: {browser: {seconds: {lognormal: {median: 6, sigma: 0.8}}}}
arrivals:
  - {capability: browser, poisson: {perMinute: 40}, untilSeconds: 420}
  - {capability: browser, bursts: {tasks: 60, everySeconds: 300}, untilSeconds: 420}
"""

TROUBLED = BUSY.replace("sigma: 0.8}}}", "sigma: 0.8}}, fails: 0.05, crashes: 0.03, hangs: 0.005}").replace(
    "{lease: {seconds: 10}}", "{lease: {seconds: 10, attemptTimeoutSeconds: 120}, retry: {maxAttempts: 20}}"
)


def accounted(found: dict) -> int:
    tasks = found["tasks"]
    return tasks["completed"] + tasks["dead"] + tasks["unfinished"]


def test_every_accepted_task_is_completed_and_the_fleet_goes_to_zero(tmp_path):
    world = play(tmp_path, BUSY)
    found = summary(world)
    assert found["tasks"]["accepted"] > 350
    assert found["tasks"]["completed"] == found["tasks"]["accepted"]
    assert world.recorder.points[-1].replicas == 0
    assert found["workers"]["scale_ins"] > 0
    assert found["workers"]["wrong_victims"] == found["workers"]["busy_told_to_end"] == 0


def test_idle_workers_leave_beside_a_busy_one_as_soon_as_the_window_is_over(tmp_path):
    """Ten seconds after the short tasks, and the few that fence, readiness and the ReplicaSet take."""
    world = play(
        tmp_path,
        "durationSeconds: 200\ncapabilities: {code: {}}\n"
        "pools: {code: {maxReplicas: 4, scaling: {targetTasksPerSlot: 1, scaleIn: {idleSeconds: 10}}}}\n"
        "work: {code: {seconds: {oneOf: [{value: 20}]}}}\ncluster: {startupSeconds: 0}\n"
        "arrivals:\n"
        "  - {capability: code, every: {seconds: 1000, tasks: 3}, fromSeconds: 10}\n"
        "  - {capability: code, every: {seconds: 15}, fromSeconds: 10, untilSeconds: 150}\n",
    )
    lowered = [move for move in world.recorder.moves if move.after < move.before]
    assert lowered[0].at == pytest.approx(10 + 20 + 10 + 5, abs=5)
    assert 0 < lowered[0].after < 4
    assert world.recorder.evicted_busy == 0


def test_equal_seeds_give_equal_runs_and_others_do_not(tmp_path):
    one, same = play(tmp_path, TROUBLED), play(tmp_path, TROUBLED)
    assert (summary(one), moves(one), curves(one.recorder.points)) == (
        summary(same),
        moves(same),
        curves(same.recorder.points),
    )
    assert summary(play(tmp_path, f"seed: 2\n{TROUBLED}")) != summary(one)


def test_crashes_hangs_and_failures_lose_nothing(tmp_path):
    found = figures(tmp_path, TROUBLED)
    assert found["workers"]["crashes"] > 5
    assert found["tasks"]["reclaimed"] > 5
    assert found["tasks"]["failed_attempts"] > 10
    assert accounted(found) == found["tasks"]["accepted"]
    assert found["tasks"]["completed"] > 0.99 * found["tasks"]["accepted"]
    assert found["workers"]["busy_told_to_end"] == 0
    assert found["cost"]["wasted_share"] > 0


def test_a_lost_node_gives_its_tasks_back_and_is_replaced(tmp_path):
    world = play(tmp_path, BUSY + "cluster: {podsPerNode: 4, nodeLosses: [{atSeconds: 320, nodes: 1}]}\n")
    found = summary(world)
    assert found["tasks"]["reclaimed"] > 0
    assert found["tasks"]["completed"] == found["tasks"]["accepted"]
    assert world.recorder.points[-1].replicas == 0


def test_a_429_costs_no_attempt(tmp_path):
    found = figures(
        tmp_path,
        BUSY.replace("sigma: 0.8}}", "sigma: 0.8}}, provider: model")
        + "providers: {model: {requestsPerMinute: 60, retryAfterSeconds: 5}}\n",
    )
    assert found["providers"]["model"]["refused_429"] > 50
    assert found["tasks"]["failed_attempts"] == found["tasks"]["dead"] == 0
    assert found["tasks"]["completed"] == found["tasks"]["accepted"]


def test_a_dead_provider_fails_attempts_until_it_is_back(tmp_path):
    found = figures(
        tmp_path,
        BUSY.replace("sigma: 0.8}}", "sigma: 0.8}}, provider: model").replace(
            "{lease: {seconds: 10}}", "{lease: {seconds: 10}, retry: {maxAttempts: 50}}"
        )
        + "providers: {model: {outages: [{fromSeconds: 100, untilSeconds: 160}], failsAfterSeconds: 2}}\n",
    )
    assert found["providers"]["model"]["failed"] > 0
    assert found["tasks"]["failed_attempts"] == found["providers"]["model"]["failed"]
    assert found["tasks"]["completed"] == found["tasks"]["accepted"]


def test_a_full_queue_refuses_and_a_patient_producer_comes_back(tmp_path):
    text = BUSY.replace("{lease: {seconds: 10}}", "{lease: {seconds: 10}, admission: {maxDepth: 20}}")
    dropped = figures(tmp_path, text)
    assert dropped["tasks"]["refused"] > 0
    assert dropped["tasks"]["completed"] == dropped["tasks"]["accepted"] < dropped["tasks"]["submitted"]
    patient = figures(
        tmp_path,
        text.replace("poisson:", "onRefusal: Retry, poisson:").replace("bursts:", "onRefusal: Retry, bursts:"),
    )
    assert patient["tasks"]["accepted"] == patient["tasks"]["submitted"] - patient["tasks"]["refused"]
    assert patient["tasks"]["completed"] > dropped["tasks"]["completed"]


def test_starts_that_fail_are_tried_again(tmp_path):
    found = figures(tmp_path, BUSY + "cluster: {startFails: 0.4, startupSeconds: 10}\n")
    assert found["tasks"]["completed"] == found["tasks"]["accepted"]


def test_tenants_get_what_they_sent(tmp_path):
    found = figures(tmp_path, BUSY.replace("poisson:", "tenants: {acme: 3, zeta: 1}, poisson:"))
    tenants = found["tenants"]
    assert set(tenants) == {"acme", "zeta"}
    assert 2 < tenants["acme"]["completed"] / tenants["zeta"]["completed"] < 4.5


def test_keda_takes_busy_workers_away_and_leadsman_does_not(tmp_path):
    long = BUSY.replace("lognormal: {median: 6, sigma: 0.8}", "lognormal: {median: 60, sigma: 1}")
    long = long.replace("durationSeconds: 1000", "durationSeconds: 2500").replace("perMinute: 40", "perMinute: 8")
    keda = figures(tmp_path, long + "scaler: {by: KedaHpa}\n")
    assert keda["workers"]["busy_told_to_end"] > 0
    assert keda["workers"]["busy_killed"] > 0
    assert accounted(keda) == keda["tasks"]["accepted"]
    ours = figures(tmp_path, long)
    assert ours["workers"]["busy_told_to_end"] == ours["workers"]["busy_killed"] == 0


def test_a_fleet_told_that_tasks_may_wait_costs_less_than_kedas_and_lets_them_wait_less():
    """A quarter of the day that `make bench-simulate` plays, with the settings of its lean row."""
    day = load(LOAD_24H).with_values({"durationSeconds": 21600})
    scaling = {"scaleIn": {"idleSeconds": 60}, "targetTasksPerSlot": 20, "targetAgeSeconds": 300}
    lean = summary(simulate(day.with_values({"pools.agents.scaling": scaling})))
    keda = summary(simulate(day.with_values({"scaler": {"by": "KedaHpa"}})))
    assert lean["workers"]["worker_hours"] < keda["workers"]["worker_hours"]
    assert lean["oldest_age_seconds"]["p95"] < keda["oldest_age_seconds"]["p95"]
    assert lean["tasks"]["completed"] >= keda["tasks"]["completed"]
    assert (
        lean["workers"]["busy_killed"] == lean["workers"]["busy_told_to_end"] == 0 < keda["workers"]["busy_killed"]
    )


@pytest.mark.long_only
def test_ten_thousand_workers_take_up_a_flood_and_leave(tmp_path):
    world = play(
        tmp_path,
        "durationSeconds: 900\ncapabilities: {browser: {}}\n"
        "pools: {browser: {maxReplicas: 10000, scaling: {targetTasksPerSlot: 1, scaleIn: {idleSeconds: 60}}}}\n"
        "work: {browser: {seconds: {uniform: {least: 60, most: 120}}}}\n"
        "arrivals: [{capability: browser, every: {seconds: 100000, tasks: 12000}, fromSeconds: 1}]\n",
    )
    found = summary(world)
    assert found["tasks"]["completed"] == 12000
    assert found["workers"]["peak_replicas"] == 10000
    assert found["workers"]["busy_told_to_end"] == 0
    assert world.recorder.points[-1].replicas == 0


def test_keda_grows_as_its_documents_say(tmp_path):
    """A poll wakes one; then the autoscaler adds four, then doubles, each fifteen seconds."""
    world = play(
        tmp_path,
        "durationSeconds: 200\ncapabilities: {browser: {}}\npools: {browser: {maxReplicas: 100}}\n"
        "work: {browser: {seconds: 1000}}\narrivals: [{capability: browser, every: {seconds: 1000, tasks: 500}}]\n"
        "scaler: {by: KedaHpa}\n",
    )
    assert [(move.at, move.after) for move in world.recorder.moves] == [
        (30.0, 1), (37.5, 5), (52.5, 10), (67.5, 20), (82.5, 40), (97.5, 80), (112.5, 100)
    ]  # fmt: skip


def test_a_changed_setting_changes_only_that(tmp_path):
    base = plan(tmp_path, BUSY)
    changed = base.with_values({"pools.browser.maxReplicas": 3})
    assert changed.pools["browser"].spec.max_replicas == 3
    assert changed.pools["browser"].spec.slots_per_worker == 2
    assert summary(simulate(changed))["workers"]["peak_replicas"] == 3


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_curves_can_be_drawn(tmp_path, kind):
    from leadsman_local.simulator.plots import draw

    world = play(tmp_path, BUSY.replace("1000", "120").replace("poisson:", "tenants: {acme: 1}, poisson:"))
    path = tmp_path / f"plot.{kind}"
    draw([world], path)
    start = path.read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if kind == "png" else b"<?xml" in start


def test_a_budget_holds_work_back_until_its_window_turns(tmp_path):
    """Ten attempts an hour: the rest waits, and goes on at the full hour."""
    world = play(
        tmp_path,
        "durationSeconds: 10800\nsampleSeconds: 60\ncapabilities:\n"
        "  llm: {budget: {window: Hour, tokens: 1000, money: '1', estimate: {tokens: 100, money: '0.1'}}}\n"
        "pools: {llm: {maxReplicas: 4}}\nscaler: {by: Fixed}\ncluster: {startupSeconds: 0}\n"
        "work: {llm: {seconds: 20, tokens: 100, costMicros: 50000}}\n"
        "arrivals: [{capability: llm, every: {seconds: 100000, tasks: 25}}]\n",
    )
    found = summary(world)
    assert found["tasks"]["completed"] == 25
    assert found["cost"]["tokens"] == 2500
    assert found["blocked"]["Budget"]["peak"] == 15
    done = {hour: max(p.cost_micros for p in world.recorder.points if p.at < 3600 * hour) for hour in (1, 2, 3)}
    assert done == {1: 10 * 50000, 2: 20 * 50000, 3: 25 * 50000}
    assert any(line.startswith("blocked   Budget: 15 tasks at most") for line in text(found))


def test_a_run_over_its_cap_fails_and_the_next_one_is_its_own(tmp_path):
    """Ten tasks of 100 tokens in each run, which may use 550: it fails with the sixth that ends."""
    text_of = (
        "durationSeconds: 1000\ncapabilities: {{llm: {{}}}}\npools: {{llm: {{maxReplicas: 1}}}}\n"
        "scaler: {{by: Fixed}}\ncluster: {{startupSeconds: 0}}\nwork: {{llm: {{seconds: 10, tokens: 100}}}}\n"
        "arrivals: [{{capability: llm, every: {{seconds: 300, tasks: 10}}, untilSeconds: 400, "
        "run: {{tasks: 10, maxTokens: {cap}}}}}]\n"
    )
    capped = play(tmp_path, text_of.format(cap=550))
    found = summary(capped)
    assert found["runs"] == {"failed": 2}
    assert 12 <= found["tasks"]["completed"] < 20
    assert found["tasks"]["unfinished"] == 0
    assert "runs      2 failed" in text(found)
    free = figures(tmp_path, text_of.format(cap=1000))
    assert free["runs"] == {"completed": 2}
    assert free["tasks"]["completed"] == 20
