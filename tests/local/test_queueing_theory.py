"""What-if answers against closed forms.

The simulator's waits equal those of the textbook recursion for the same arrivals and service times, task by task;
the recursion, which is fast enough for long runs, gives the mean wait of the queueing formula.
"""

import heapq
import json
import math
from random import Random

import pytest

from scenarios import figures, play

FIXED = """\
durationSeconds: 100000
capabilities: {{code: {{}}}}
pools: {{code: {{maxReplicas: {workers}, slotsPerWorker: {slots}}}}}
arrivals: [{{trace: trace.jsonl, fromSeconds: 5}}]
cluster: {{startupSeconds: 0}}
scaler: {{by: Fixed}}
sampleSeconds: 100
"""


def erlang_c_wait(arrivals_per_second: float, slots: int) -> float:
    """Mean wait of M/M/c with a mean service time of one second."""
    load = arrivals_per_second
    top = load**slots / math.factorial(slots) * slots / (slots - load)
    return top / (sum(load**k / math.factorial(k) for k in range(slots)) + top) / (slots - load)


def poisson_tasks(rate: float, count: int, seed: int) -> list[tuple[float, float]]:
    """Arrival and service times."""
    rng, at, tasks = Random(seed), 0.0, []
    for _ in range(count):
        at += rng.expovariate(rate)
        tasks.append((at, rng.expovariate(1.0)))
    return tasks


def first_come_first_served(tasks: list[tuple[float, float]], slots: int) -> list[float]:
    """Waits of tasks that slots take in order of arrival."""
    free = [0.0] * slots
    waits = []
    for at, seconds in tasks:
        start = max(at, heapq.heappop(free))
        waits.append(start - at)
        heapq.heappush(free, start + seconds)
    return waits


def simulated_waits(tmp_path, tasks: list[tuple[float, float]], workers: int, slots: int) -> list[float]:
    lines = [json.dumps({"at": at, "capability": "code", "seconds": seconds}) for at, seconds in tasks]
    (tmp_path / "trace.jsonl").write_text("\n".join(lines))
    text = FIXED.format(workers=workers, slots=slots).replace("100000", str(math.ceil(tasks[-1][0]) + 100))
    return play(tmp_path, text).recorder.waits["code"]


@pytest.mark.parametrize(("workers", "slots"), [(2, 1), (2, 2), (4, 1)])
def test_each_task_waits_as_long_as_in_the_textbook(tmp_path, workers, slots):
    tasks = poisson_tasks(1.4, 1500, seed=workers)
    simulated = simulated_waits(tmp_path, tasks, workers, slots)
    assert sorted(simulated) == pytest.approx(sorted(first_come_first_served(tasks, workers * slots)), abs=0.002)


@pytest.mark.parametrize(("slots", "rate"), [(2, 1.4), (4, 1.4), (4, 2.8), (8, 6.0)])
def test_the_textbook_gives_the_mean_wait_of_the_formula_within_five_percent(slots, rate):
    """Doubling the slots is the first of these against the second."""
    waits = first_come_first_served(poisson_tasks(rate, 500_000, seed=1), slots)
    assert sum(waits) / len(waits) == pytest.approx(erlang_c_wait(rate, slots), rel=0.05)


def test_simulated_waits_come_near_the_formula_of_a_queue_with_as_many_slots(tmp_path):
    """As near as 14,000 arrivals allow, all that a test has time for; `make bench-simulate` takes 345,000."""
    waits = []
    for seed in (1, 2, 3):
        world = play(
            tmp_path,
            f"seed: {seed}\ndurationSeconds: 4000\nsampleSeconds: 400\ncapabilities: {{code: {{}}}}\n"
            "pools: {code: {maxReplicas: 2}}\nscaler: {by: Fixed}\ncluster: {startupSeconds: 0}\n"
            "work: {code: {seconds: {exponential: {mean: 1}}}}\n"
            "arrivals: [{capability: code, poisson: {perMinute: 72}}]\n",
        )
        waits += world.recorder.waits["code"][500:]
    assert sum(waits) / len(waits) == pytest.approx(erlang_c_wait(1.2, 2), rel=0.15)


def test_halving_the_idle_window_saves_that_time_of_every_worker(tmp_path):
    """One burst keeps a fleet for start-up, work and window: only the window changes."""
    text = (
        "durationSeconds: 2000\ncapabilities: {{code: {{}}}}\n"
        "pools: {{code: {{maxReplicas: 10, "
        "scaling: {{targetTasksPerSlot: 1, scaleIn: {{idleSeconds: {idle}}}}}}}}}\n"
        "work: {{code: {{seconds: 60}}}}\n"
        "arrivals: [{{capability: code, every: {{seconds: 5000, tasks: 10}}, fromSeconds: 10}}]\n"
    )
    long, short = (figures(tmp_path, text.format(idle=idle))["workers"] for idle in (300, 150))
    assert long["peak_replicas"] == short["peak_replicas"] == 10
    assert long["worker_seconds"] == pytest.approx(10 * (30 + 60 + 300), rel=0.05)
    assert long["worker_seconds"] - short["worker_seconds"] == pytest.approx(10 * 150, rel=0.05)


@pytest.mark.parametrize(("share", "seconds"), [(25, 500), (50, 250)])
def test_a_tenant_cap_makes_a_flood_take_as_long_as_its_slots_allow(tmp_path, share, seconds):
    """100 tasks of ten seconds on a share of eight slots."""
    world = play(
        tmp_path,
        "durationSeconds: 700\nsampleSeconds: 1\n"
        f"capabilities: {{code: {{fairness: {{tenantSharePercent: {share}}}}}}}\n"
        "pools: {code: {maxReplicas: 8}}\nwork: {code: {seconds: 10}}\ncluster: {startupSeconds: 0}\n"
        "scaler: {by: Fixed}\n"
        "arrivals: [{capability: code, every: {seconds: 5000, tasks: 100}, tenants: {acme: 1}, fromSeconds: 10}]\n",
    )
    assert max(point.tenants.get("acme", 0) for point in world.recorder.points) == 8 * share // 100
    assert max(point.at for point in world.recorder.points if point.leased) == pytest.approx(10 + seconds, rel=0.05)
