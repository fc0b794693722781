"""Something other than the broker answers, or the broker says what cannot be: nothing is taken away.

Every such answer is tried against the stream alone in tests/operator; here, what a fleet makes of it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from broker_impostor import Impostor, impostor_for
from fleet import Kube, OperatorProcess, ReplicaHistory, recorded, until
from fleet.manifests import capability, pool
from fleet.pools import Pools

Start = Callable[..., OperatorProcess]


@pytest.fixture
async def impostor(namespace: str) -> AsyncIterator[Impostor]:
    async with impostor_for(namespace) as found:
        yield found


@pytest.fixture
async def six(
    kube: Kube, namespace: str, pools: Pools, start_operator: Start, impostor: Impostor
) -> AsyncIterator[ReplicaHistory]:
    """A pool at the six replicas that the impostor's true numbers ask for, eager to shrink."""
    url = impostor.url
    await asyncio.to_thread(start_operator, broker_url=url, namespaces=[namespace])
    async with recorded(kube, namespace) as history:
        eager = {"scaleIn": {"idleSeconds": 1}, "targetTasksPerSlot": 1}
        await pools.apply(capability("browser"), pool("browser", scaling=eager))
        await history.until("six", lambda sizes: sizes.replicas("browser")[-1:] == [6])
        yield history


@pytest.mark.parametrize("answer", ["html", "negative"])
async def test_what_is_not_the_brokers_word_holds_the_fleet_until_the_truth_is_back(
    pools: Pools, impostor: Impostor, six: ReplicaHistory, answer: str
) -> None:
    impostor.turn(answer)

    await pools.until_condition("browser", "SignalHealthy", "False", reason="SignalLost", seconds=60)
    assert await until("its event", lambda: pools.events("browser", "SignalLost"))
    assert six.replicas("browser")[-1] == 6

    impostor.turn("right")
    await pools.until_condition("browser", "SignalHealthy", "True", seconds=30)


@pytest.mark.parametrize("answer", ["another life", "yesterday"])
async def test_a_change_that_does_not_continue_the_stream_is_dropped_and_the_truth_is_asked_for(
    pools: Pools, impostor: Impostor, six: ReplicaHistory, answer: str
) -> None:
    """The change says that there is no work; the snapshot before it, at every opening, says that there is."""
    opened = impostor.opened
    impostor.turn(answer)

    async def several() -> bool:
        return impostor.opened >= opened + 5

    await until("the stream to be opened again and again", several)
    assert six.replicas("browser")[-1] == 6
    await pools.until_condition("browser", "SignalHealthy", "True")
