"""The release goes before its pools, and comes back: nothing hangs, nothing is lost. Runs last in this folder."""

from demo.installation import AGENTS, Installation
from world import capability, pool, until


def test_a_release_that_goes_before_its_pools_leaves_nothing_hanging_and_takes_up_again_what_it_left(world):
    with world.client(AGENTS) as client:
        waiting = client.submit("llm", {"prompt": "later", "seconds": 0}, delay_seconds=30)
    with world.namespace() as namespace:
        world.apply(namespace, capability("browser"), pool("browser", world.images.agents, minReplicas=1))
        until("its worker is ready", lambda: any(one.running for one in deployed(world, namespace)))
        world.helm("uninstall", "leadsman", "--wait")
        try:
            assert deployed(world, namespace), "a fleet does not end with the operator"
            world.kubectl("delete", "namespace", namespace, "--timeout=90s")
        finally:
            Installation(world.ground).install(world.images)
        world.kubectl("create", "namespace", namespace)
    world.kubectl(
        *("--namespace", AGENTS, "wait", "workerpool/browser", "workerpool/llm"),
        *("--for=condition=Ready", "--timeout=60s"),
    )
    with world.client(AGENTS) as client:
        found = client.wait(waiting.id, timeout_seconds=120)
        assert found.state == "completed", "the broker's volume outlives the release"
        assert found.attempts.deliveries == 1


def deployed(world, namespace):
    return world.pods(namespace, "browser")
