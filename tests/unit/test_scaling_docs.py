"""The worked examples of docs/scaling.md, run line by line."""

import dataclasses
import datetime as dt
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from leadsman_operator.api.schedule import Schedule
from leadsman_operator.reconcile.schedules import spec_at
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.demand import slot_rule
from leadsman_operator.scaling.model import (
    Background,
    CapabilitySample,
    PoolMemory,
    ScalingMode,
    ScalingPolicy,
    Signal,
)
from leadsman_operator.scaling.share import PoolView, share
from scaling_cases import healthy, observe, pods, pool, work, workers
from scaling_cases.build import START

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scaling.md").read_text()


def table(name: str) -> list[dict[str, str]]:
    """The rows below `<!-- table: name -->`, each as heading -> cell."""
    found = re.search(rf"<!-- table: {name} -->\n((?:\|.*\n)+)", PAGE)
    assert found, f"docs/scaling.md has no table {name}"
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in found.group(1).splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]


def number(cell: str) -> int | None:
    return None if cell == "-" else int(cell)


def lines(name: str) -> list[object]:
    return [pytest.param(row, id=f"{name}-{index}") for index, row in enumerate(table(name), start=1)]


def answer(decision) -> tuple[str, str, str]:
    return str(decision.replicas), decision.action.value, decision.reason.value


def expected(row: dict[str, str]) -> tuple[str, str, str]:
    return row["replicas"], row["action"], row["reason"]


@pytest.mark.parametrize("row", lines("slots"))
def test_slots(row):
    service = number(row["S"])
    rule = slot_rule(
        pool(target_tasks_per_slot=int(row["targetTasksPerSlot"]), target_age_seconds=int(row["targetAgeSeconds"])),
        None if service is None else float(service),
        float(row["oldest"]),
        float(row["P"]),
    )

    assert rule.slots(int(row["L"]), work(int(row["W"]), leasable=int(row["Q"]))) == int(row["slots"])


@pytest.mark.parametrize("row", lines("rules"))
def test_rules(row):
    service, leased, waiting = number(row["S"]), int(row["L"]), int(row["W"])
    sample = CapabilitySample(
        "browser",
        waiting,
        waiting,
        service_seconds=None if service is None else float(service),
        leases_per_minute=number(row["leasesPerMinute"]),
        background=Background(int(row["background"]), leased + waiting, int(row["interactiveReservePercent"])),
    )
    spec = pool(max_replicas=100, target_tasks_per_slot=1)
    observation = observe(leased, workers=workers(*[1] * leased))
    work = share({"browser": sample}, [PoolView(spec, observation)]).work["browser"]

    decision, _ = decide(spec, dataclasses.replace(observation, work=work), PoolMemory(), START)

    assert decision.slots == int(row["slots"])


@pytest.mark.parametrize("row", lines("replicas"))
def test_replicas(row):
    replicas, ready, slots = int(row["now"]), int(row["ready"]), int(row["slotsPerWorker"])
    observation = observe(
        replicas,
        work(int(row["waiting"])),
        workers=workers(*[1] * int(row["in flight"]), slots=slots),
        pods=(*pods(ready), *pods(replicas, ready=False)[ready:]),
    )
    spec = pool(
        slots_per_worker=slots,
        headroom_slots=int(row["headroomSlots"]),
        min_replicas=int(row["minReplicas"]),
        max_replicas=int(row["maxReplicas"]),
        scale_out_max_step=number(row["scaleOut.maxStep"]),
    )

    decision, _ = decide(spec, observation, PoolMemory(), START)

    assert answer(decision) == expected(row)


def test_the_window_over_time():
    memory = PoolMemory(since=START - 86_400)
    for row in table("window"):
        replicas, busy = int(row["now"]), int(row["in flight"])
        observation = observe(
            replicas,
            work(int(row["waiting"])),
            workers=workers(*[1] * busy, *[0] * (replicas - busy)),
        )

        decision, memory = decide(pool(), observation, memory, START + int(row["second"]))

        assert (str(decision.recommended), *answer(decision)) == (row["wants"], *expected(row)), row


def test_the_step_policy_over_time():
    memory = PoolMemory(since=START - 86_400)
    spec = pool(policy=ScalingPolicy.STEP, scale_in_idle_seconds=60)
    for row in table("step"):
        replicas, busy, ready = int(row["now"]), int(row["in flight"]), int(row["ready"])
        observation = observe(
            replicas,
            work(int(row["waiting"])),
            workers=workers(*[1] * busy, *[0] * (ready - busy)),
            pods=(*pods(ready), *pods(replicas, ready=False)[ready:]),
        )

        decision, memory = decide(spec, observation, memory, START + int(row["second"]))

        assert answer(decision) == expected(row), row


@pytest.mark.parametrize("row", lines("share"))
def test_share(row):
    service = number(row["S"])
    waiting = int(row["waiting"])
    sample = CapabilitySample(
        "browser", waiting, waiting, service_seconds=None if service is None else float(service)
    )
    a = PoolView(pool(name="a", max_replicas=int(row["a: max"])), observe(int(row["a: idle"])))
    b = PoolView(
        pool(name="b", max_replicas=int(row["b: max"]), mode=ScalingMode(row["b: mode"])),
        observe(int(row["b: idle"])),
    )

    shares = share({"browser": sample}, [b, a])

    given = [shares.work[name][0] for name in ("a", "b")]
    wants = [
        slot_rule(view.spec, part.service_seconds, None, 30.0).slots(0, part)
        for view, part in zip((a, b), given, strict=True)
    ]
    assert [str(part.waiting) for part in given] == [row["to a"], row["to b"]]
    assert [str(slots) for slots in wants] == [row["a wants"], row["b wants"]]


@pytest.mark.parametrize("row", lines("schedules"))
def test_schedules(row):
    example = re.search(r"```yaml\nscaling:\n(.*?)```", PAGE, re.DOTALL)
    schedules = [Schedule.model_validate(each) for each in yaml.safe_load(example[1])["schedules"]]
    day, moment = row["wall clock in Zurich"].split(" ", 1)
    now = dt.datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo("Europe/Zurich"))

    spec, _ = spec_at(pool(min_replicas=1), schedules, now)

    assert f"{now:%a}" == day
    assert [str(spec.min_replicas), str(spec.max_replicas)] == [row["at least"], row["at most"]]


@pytest.mark.parametrize("row", lines("trust"))
def test_trust(row):
    signal: Signal | None = None if row["last heard"] == "never" else healthy(float(row["last heard"]))
    waiting = number(row["waiting"]) or 0
    replicas = int(row["now"])
    observation = observe(replicas, work(waiting), signal=signal, workers=())

    spec = pool(min_replicas=int(row["minReplicas"]), signal_lost_floor=number(row["signalLostFloor"]))
    decision, _ = decide(spec, observation, PoolMemory(), START)

    assert answer(decision) == expected(row)
