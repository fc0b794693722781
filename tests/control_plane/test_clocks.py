"""The clocks of the operator and the broker are ten minutes apart, and the cluster's between them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from fleet import OperatorProcess
from fleet.operator_metrics import metric
from fleet.scene import POOL, Scene
from skewed_clock import skewed

BUSY, IDLE = 2, 3


@pytest.fixture(params=[300.0, -300.0], ids=["operator ahead", "operator behind"])
def ahead(request: pytest.FixtureRequest) -> float:
    """How far the operator's clock is ahead; the broker's is behind as much."""
    return float(request.param)


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess], ahead: float) -> BrokerProcess:
    """In the place of a broker whose clock is right."""
    return start_broker(env=skewed(-ahead))


@pytest.fixture
def operator(
    start_operator: Callable[..., OperatorProcess],
    broker: BrokerProcess,
    namespace: str,
    ahead: float,
    tmp_path: Path,
) -> OperatorProcess:
    """In the place of an operator whose clock is right."""
    clock = tmp_path / "clock"
    clock.write_text(str(ahead))
    return start_operator(
        broker_url=broker.url,
        namespaces=[namespace],
        program="fleet.clock_operator",
        env={**skewed(ahead), "LEADSMAN_TEST_CLOCK": str(clock)},
    )


async def test_a_fleet_grows_and_shrinks_as_if_they_were_not(scene: Scene, operator: OperatorProcess) -> None:
    await scene.open()
    await scene.submit(BUSY, hold=True)
    await scene.submit(IDLE, seconds=2)
    await scene.until_size(BUSY + IDLE)

    # An age that came out of two clocks would be minutes, or negative.
    assert await metric(operator, "leadsman_operator_signal_age_seconds") < 60
    count = await metric(operator, "leadsman_operator_enqueue_to_scale_seconds_count")
    assert count > 0
    assert 0 <= await metric(operator, "leadsman_operator_enqueue_to_scale_seconds_sum") < 60 * count

    await scene.until_settled(BUSY)
    scene.assert_only_shrank_from(BUSY + IDLE)
    await scene.pools.until_condition(POOL, "SignalHealthy", "True")
    scene.finish_held()
    await scene.until_settled(0)
    scene.assert_everything_was_done_once()
