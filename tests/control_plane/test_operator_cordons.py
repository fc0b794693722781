"""Too few workers are free to go: busy ones get nothing new, empty and go, unless they are needed again."""

import asyncio

import pytest

from fleet import OperatorProcess, until
from fleet.scene import POOL, Scene


async def cordoned(scene: Scene) -> set[str]:
    """Pods whose workers get nothing new, as the broker has it."""
    return {cordon.pod_uid for cordon in (await scene.client.stats()).cordons}


async def until_cordoned(scene: Scene, count: int) -> set[str]:
    async def look() -> bool:
        return len(await cordoned(scene)) == count

    await until(f"{count} cordons", look, seconds=60)
    return await cordoned(scene)


async def test_a_full_fleet_above_its_maximum_empties_and_shrinks_and_is_kept_when_it_is_needed(
    scene: Scene, operator: OperatorProcess
) -> None:
    drain = {"maxDraining": 2}
    await scene.open(drain=drain)
    await scene.submit(4, hold=True)
    await scene.until_held(4)

    await scene.create(maxReplicas=1, drain=drain)
    chosen = await until_cordoned(scene, 2)
    events = await until("the event", lambda: scene.pools.events(POOL, "Cordoned"))
    assert "no new tasks for" in events[0]["note"]
    assert "maxReplicas is 1" in events[0]["note"]

    # What waits now is for the others; those that are cordoned stay in service for what they hold.
    await scene.submit(1, seconds=0)
    assert await scene.ready_replicas() == 4

    await scene.create(drain=drain)
    await until_cordoned(scene, 0)
    assert not scene.fleet.busy_deletions
    await scene.until_completed(1)

    # A leader that dies leaves its cordons behind; the next one does not go on with them.
    await scene.create(maxReplicas=1, drain=drain)
    chosen = await until_cordoned(scene, 2)
    operator.kill()
    await scene.create(drain=drain)
    assert await cordoned(scene) == chosen
    await asyncio.to_thread(operator.start)
    await until_cordoned(scene, 0)

    await scene.create(maxReplicas=1, drain=drain)
    await until_cordoned(scene, 2)
    scene.finish_held()
    await scene.until_settled(0)
    assert not await cordoned(scene) & {worker.assignment.pod_uid for worker in scene.fleet.workers.values()}
    assert not scene.fleet.busy_deletions
    scene.assert_everything_was_done_once()


@pytest.mark.usefixtures("operator")
async def test_workers_of_several_slots_that_always_have_a_task_are_packed_onto_fewer(scene: Scene) -> None:
    """Four workers of four slots with a task each: one worker is enough, and none is ever free by itself."""
    await scene.open(minReplicas=4, slotsPerWorker=4, maxReplicas=8, drain={"maxDraining": 3})
    await scene.until_ready_replicas(least=4)
    busy = list(scene.fleet.workers.values())
    assert len(busy) == 4
    await scene.submit(16, hold=True)
    await scene.until_held(16)
    await scene.create(minReplicas=0, slotsPerWorker=4, maxReplicas=8, drain={"maxDraining": 3})
    # All but one task of each worker ends.
    for worker in busy:
        for held in list(worker.held.values())[1:]:
            held.let_go.set()
    await scene.until_held(4)

    await until_cordoned(scene, 3)
    for worker in scene.fleet.workers.values():
        for held in worker.held.values():
            held.let_go.set()

    await scene.until_settled(0)
    assert not scene.fleet.busy_deletions
    scene.assert_everything_was_done_once()
