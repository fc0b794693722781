"""What a person sets by hand: modes, bounds and schedules, each with what is then to be read."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import BrokerClient, OperatorProcess, until
from fleet.manifests import capability, pool
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit


async def replicas(pools: Pools, name: str) -> int | None:
    deployment = await pools.deployment(name)
    return None if deployment is None else int(deployment["spec"]["replicas"])


async def until_replicas(pools: Pools, name: str, number: int) -> None:
    async def look() -> bool:
        return await replicas(pools, name) == number

    await until(f"{number} replicas of {name}", look, seconds=60)


async def until_event(pools: Pools, name: str, reason: str, text: str) -> None:
    async def look() -> bool:
        return any(text in event["note"] for event in await pools.events(name, reason))

    try:
        await until(f"event {reason} of {name} with {text!r}", look)
    except AssertionError as error:
        notes = [(event["reason"], event["note"]) for event in await pools.events(name)]
        raise AssertionError(f"{error}; events: {notes}") from None


@pytest.mark.usefixtures("operator")
async def test_observe_shows_and_paused_leaves_alone_until_they_are_active(
    pools: Pools, client: BrokerClient
) -> None:
    """One pool is watched before its first Deployment, one is paused with workers at work."""
    await pools.apply(
        capability("seen"), pool("seen", scaling={"mode": "Observe"}), capability("held"), pool("held")
    )
    await pools.until_ready("held")
    await pools.until_condition("seen", "ScalingActive", "False", reason="Observing")
    await client.submit(pools.namespace, *[TaskSubmit(capability="held")] * 2)
    await until_replicas(pools, "held", 2)
    await pools.apply(pool("held", scaling={"mode": "Paused"}))
    await pools.until_condition("held", "ScalingActive", "False", reason="PoolPaused")

    await client.submit(pools.namespace, *[TaskSubmit(capability="seen")] * 4, *[TaskSubmit(capability="held")] * 5)

    async def decided() -> bool:
        status = (await pools.pool("seen")).get("status", {})
        last = status.get("lastDecision", {})
        return (last.get("action"), last.get("desiredReplicas"), last.get("reason")) == ("Hold", 4, "Observing")

    await until("what it would do", decided)
    assert "would go 0 -> 4" in (await pools.pool("seen"))["status"]["lastDecision"]["summary"]
    assert await replicas(pools, "seen") in {None, 0}
    assert (await pools.pool("held"))["status"]["lastDecision"]["reason"] == "PoolPaused"
    assert await replicas(pools, "held") == 2

    await pools.apply(pool("seen"), pool("held"))

    await until_replicas(pools, "seen", 4)
    await until_replicas(pools, "held", 7)
    await until_event(pools, "held", "PoolPaused", "nothing is done")
    await until_event(pools, "held", "ScalingActive", "decisions are carried out")


async def test_bounds_follow_kubectl_scale_and_the_clock_on_the_wall(
    crds: ControlPlane,
    pools: Pools,
    broker: BrokerProcess,
    start_operator: Callable[..., OperatorProcess],
    tmp_path: Path,
) -> None:
    """A floor from half past two, on the night when Zurich's clocks go from two to three: it begins at three."""
    clock = tmp_path / "clock"

    def set_clock(utc: str) -> None:
        wanted = dt.datetime.fromisoformat(utc).replace(tzinfo=dt.UTC)
        clock.with_suffix(".new").write_text(str((wanted - dt.datetime.now(dt.UTC)).total_seconds()))
        clock.with_suffix(".new").rename(clock)

    set_clock("2026-03-29T00:30:00")
    start_operator(
        broker_url=broker.url,
        namespaces=[pools.namespace],
        program="fleet.clock_operator",
        env={"LEADSMAN_TEST_CLOCK": str(clock)},
    )
    night = {"timeZone": "Europe/Zurich", "from": "02:30", "to": "05:00", "min": 3}
    quick = {"scaleIn": {"idleSeconds": 0}}
    await pools.apply(
        capability("browser"), pool("browser", scaling={"schedules": [night], **quick}), capability("spare")
    )
    await pools.apply(pool("spare", scaling={"headroomSlots": 2}))
    await pools.until_ready("browser", "spare")
    assert await replicas(pools, "browser") == 0

    set_clock("2026-03-29T00:59:57")
    crds.kubectl("-n", pools.namespace, "scale", "wp", "browser", "--replicas=1")

    await until_event(pools, "browser", "BoundsChanged", "0-20 -> 1-20")
    await until_replicas(pools, "browser", 3)
    words = "minReplicas is 3 by schedule daily 02:30-05:00 Europe/Zurich"
    await until_event(pools, "browser", "ScaledOut", words)
    assert words in (await pools.pool("browser"))["status"]["lastDecision"]["summary"]
    await until_replicas(pools, "spare", 2)

    set_clock("2026-03-29T03:00:00")
    crds.kubectl("-n", pools.namespace, "scale", "wp", "browser", "--replicas=0")

    async def lower() -> bool:
        status = (await pools.pool("browser"))["status"]
        return status["lastDecision"]["desiredReplicas"] == 0

    await until("a floor that ended", lower)
