"""What a running operator says of itself on its /metrics."""

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from .operator_process import OperatorProcess
from .pools import Pools
from .waiting import until


async def metric(operator: OperatorProcess, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels; 0 when there are none."""
    async with aiohttp.ClientSession() as session, session.get(f"{operator.ops_url}/metrics") as reply:
        text = await reply.text()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def operator_looks(operator: OperatorProcess, pools: Pools, name: str) -> None:
    """Make the operator look at a pool twice: the second look has seen all that there was to see before."""
    count = "leadsman_operator_look_seconds_count"
    for poke in ("first", "second"):
        before = await metric(operator, count)
        await pools.kube.patch(pools.path("WorkerPool", name), {"metadata": {"annotations": {"poke": poke}}})

        async def looked(before: float = before) -> bool:
            return await metric(operator, count) > before

        await until("another look", looked)
